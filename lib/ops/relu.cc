#include "ops/relu.h"

#include "device/parallel_for.h"
#include "ops/dispatch.h"
#include "ops/elementwise_kernels.h"
#include "ops/reorder.h"

namespace dptrain::ops {
namespace {

constexpr int64_t kGrain = 16384;

}  // namespace

Tensor relu_forward(const Tensor& x) {
  Device& device = common_device("relu", {&x});
  if (device.kind() != DeviceKind::cpu) no_implementation("relu", device);
  Tensor y = Tensor::empty(device, x.shape(), {.layout = x.layout()});
  parallel_ranges(device, x.storage_elements(), kGrain, [&](int64_t begin, int64_t end) {
    elementwise_kernels().relu(x.data<float>() + begin, y.data<float>() + begin, end - begin);
  });
  return y;
}

Tensor relu_backward(const Tensor& y, const Tensor& output_gradient) {
  Device& device = common_device("relu backward", {&y, &output_gradient});
  require_shape("relu backward", "output gradient", output_gradient.shape(), y.shape());
  if (device.kind() != DeviceKind::cpu) no_implementation("relu backward", device);
  const Tensor incoming = reorder(output_gradient, y.layout());
  Tensor gradient = Tensor::empty(device, y.shape(), {.layout = y.layout()});
  parallel_ranges(device, y.storage_elements(), kGrain, [&](int64_t begin, int64_t end) {
    elementwise_kernels().relu_backward(y.data<float>() + begin, incoming.data<float>() + begin,
                                        gradient.data<float>() + begin, end - begin);
  });
  return gradient;
}

}  // namespace dptrain::ops
