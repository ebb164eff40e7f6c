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

}  // namespace dptrain::ops
