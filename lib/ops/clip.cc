#include "ops/clip.h"

#include "ops/clip_cuda.h"
#include "ops/dispatch.h"
#include "ops/optimizers_cpu.h"

namespace dptrain::ops {

Tensor clip_factor(const Tensor& gradients, double most, const Tensor& factor) {
  Device& device = common_device("clip_factor", {&gradients, &factor});
  return on_device(
      "clip_factor", device, [&] { return cpu::clip_factor(gradients, most, factor); },
      [&] { return cuda::clip_factor(gradients, most, factor); });
}

void sum_of_squares(const Tensor& gradients, const Tensor& sum) {
  Device& device = common_device("sum_of_squares", {&gradients, &sum});
  on_device(
      "sum_of_squares", device, [&] { cpu::sum_of_squares(gradients, sum); },
      [&] { cuda::sum_of_squares(gradients, sum); });
}

Tensor clip_factor_of_ranges(const Tensor& sums, double most, const Tensor& factor) {
  Device& device = common_device("clip_factor_of_ranges", {&sums, &factor});
  return on_device(
      "clip_factor_of_ranges", device, [&] { return cpu::clip_factor_of_ranges(sums, most, factor); },
      [&] { return cuda::clip_factor_of_ranges(sums, most, factor); });
}

}  // namespace dptrain::ops
