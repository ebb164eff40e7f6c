#include "ops/reduce.h"

#include <vector>

#include "device/parallel_for.h"
#include "ops/dispatch.h"
#include "ops/reorder.h"

namespace dptrain::ops {
namespace {

/// Elements that are summed one after the other, in double; the sums of such runs are then added in order.
constexpr int64_t kRun = 8192;

}  // namespace

Tensor reduce_forward(const Tensor& x, Reduction reduction) {
  Device& device = common_device("reduce", {&x});
  if (device.kind() != DeviceKind::cpu) no_implementation("reduce", device);
  const int64_t count = x.storage_elements();  // padding is zero
  std::vector<double> runs(static_cast<size_t>((count + kRun - 1) / kRun));
  parallel_for(device, static_cast<int64_t>(runs.size()), [&](int64_t run) {
    double sum = 0;
    for (int64_t i = run * kRun; i < std::min(count, (run + 1) * kRun); ++i) sum += x.data<float>()[i];
    runs[static_cast<size_t>(run)] = sum;
  });
  double total = 0;
  for (const double sum : runs) total += sum;
  if (reduction == Reduction::mean) total /= static_cast<double>(x.elements());
  const float value = static_cast<float>(total);
  return Tensor::from(device, {1}, std::span(&value, 1));
}

Tensor reduce_backward(const Tensor& x, const Tensor& output_gradient, Reduction reduction) {
  Device& device = common_device("reduce backward", {&x, &output_gradient});
  require_shape("reduce backward", "output gradient", output_gradient.shape(), {1});
  if (device.kind() != DeviceKind::cpu) no_implementation("reduce backward", device);
  float share = output_gradient.data<float>()[0];
  if (reduction == Reduction::mean) share /= static_cast<float>(x.elements());
  const std::vector<float> values(static_cast<size_t>(x.elements()), share);
  return reorder(Tensor::from(device, x.shape(), values), x.layout());
}

}  // namespace dptrain::ops
