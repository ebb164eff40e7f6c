#include "ops/sgd.h"

#include "ops/dispatch.h"
#include "ops/optimizers_cpu.h"
#include "ops/sgd_cuda.h"

namespace dptrain::ops {

void sgd_step(const Tensor& weights, const Tensor& gradients, const Tensor& velocity, const SgdOptions& options) {
  Device& device = common_device(
      "sgd", {&weights, &gradients, &velocity, &options.copy, &options.groups.factors, &options.groups.of_blocks});
  require_shape("sgd", "gradients", gradients.shape(), weights.shape());
  if (velocity.defined()) require_shape("sgd", "velocity", velocity.shape(), weights.shape());
  require_groups("sgd", options.groups, weights.storage_elements());
  return on_device(
      "sgd", device, [&] { return cpu::sgd_step(weights, gradients, velocity, options); },
      [&] { return cuda::sgd_step(weights, gradients, velocity, options); });
}

}  // namespace dptrain::ops
