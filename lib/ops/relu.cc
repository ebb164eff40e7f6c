#include "ops/relu.h"

#include "ops/dispatch.h"
#include "ops/elementwise_cpu.h"
#include "ops/elementwise_cuda.h"
#include "ops/reorder.h"

namespace dptrain::ops {

Tensor relu_forward(const Tensor& x) {
  Device& device = common_device("relu", {&x});
  Tensor y = Tensor::empty(device, x.shape(), {.dtype = x.dtype(), .layout = x.layout()});
  on_device(
      "relu", device, [&] { cpu::relu_forward(x, y); }, [&] { cuda::relu_forward(x, y); });
  return y;
}

Tensor relu_backward(const Tensor& y, const Tensor& output_gradient) {
  Device& device = common_device("relu backward", {&y, &output_gradient});
  require_shape("relu backward", "output gradient", output_gradient.shape(), y.shape());
  const Tensor incoming = reorder(output_gradient, y.layout());
  Tensor gradient = Tensor::empty(device, y.shape(), {.dtype = y.dtype(), .layout = y.layout()});
  on_device(
      "relu backward", device, [&] { cpu::relu_backward(y, incoming, gradient); },
      [&] { cuda::relu_backward(y, incoming, gradient); });
  return gradient;
}

}  // namespace dptrain::ops
