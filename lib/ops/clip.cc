#include "ops/clip.h"

#include "ops/clip_cuda.h"
#include "ops/dispatch.h"
#include "ops/optimizers_cpu.h"

namespace dptrain::ops {

Tensor clip_factor(const Tensor& gradients, double most, const Tensor& factor) {
  return clip_factor_of(sum_of_squares(gradients), most, factor);
}

Tensor sum_of_squares(const Tensor& gradients) {
  return on_device(
      "sum_of_squares", gradients.device(), [&] { return cpu::sum_of_squares(gradients); },
      [&] { return cuda::sum_of_squares(gradients); });
}

Tensor clip_factor_of(const Tensor& squares, double most, const Tensor& factor) {
  Device& device = common_device("clip_factor", {&squares, &factor});
  return on_device(
      "clip_factor", device, [&] { return cpu::clip_factor_of(squares, most, factor); },
      [&] { return cuda::clip_factor_of(squares, most, factor); });
}

}  // namespace dptrain::ops
