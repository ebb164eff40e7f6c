#include "ops/clip.h"

#include "ops/clip_cuda.h"
#include "ops/dispatch.h"
#include "ops/optimizers_cpu.h"

namespace dptrain::ops {

Tensor clip_factor(const Tensor& squares, double most, const Tensor& factor) {
  Device& device = common_device("clip_factor", {&squares, &factor});
  return on_device(
      "clip_factor", device, [&] { return cpu::clip_factor(squares, most, factor); },
      [&] { return cuda::clip_factor(squares, most, factor); });
}

}  // namespace dptrain::ops
