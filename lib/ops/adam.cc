#include "ops/adam.h"

#include "ops/adam_cuda.h"
#include "ops/dispatch.h"
#include "ops/optimizers_cpu.h"

namespace dptrain::ops {

void adam_step(const Tensor& weights, const Tensor& gradients, const AdamMoments& moments, const AdamOptions& options) {
  Device& device = common_device("adam", {&weights, &gradients, &moments.first, &moments.second, &options.copy,
                                          &options.groups.factors, &options.groups.of_blocks});
  require_shape("adam", "gradients", gradients.shape(), weights.shape());
  require_shape("adam", "first moment", moments.first.shape(), weights.shape());
  require_shape("adam", "second moment", moments.second.shape(), weights.shape());
  require_groups("adam", options.groups, weights.storage_elements());
  return on_device(
      "adam", device, [&] { return cpu::adam_step(weights, gradients, moments, options); },
      [&] { return cuda::adam_step(weights, gradients, moments, options); });
}

}  // namespace dptrain::ops
