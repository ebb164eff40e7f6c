#include "ops/loss_scale.h"

#include "ops/dispatch.h"
#include "ops/loss_scale_cuda.h"

namespace dptrain::ops {
namespace {

/// Throws on a CPU worker. A device that stands for a GPU computes nothing and only logs the operator.
void not_on_cpus(const char* op, const Device& device) {
  if (!is_logged_gpu(device)) no_implementation(op, device);
}

}  // namespace

void find_nonfinite(const Tensor& gradients, const Tensor& found) {
  Device& device = common_device("find_nonfinite", {&gradients, &found});
  on_device(
      "find_nonfinite", device, [&] { not_on_cpus("find_nonfinite", device); },
      [&] { cuda::find_nonfinite(gradients, found); });
}

void update_loss_scale(const LossScaleState& state, int growth_interval) {
  Device& device = state.scale.device();
  on_device(
      "update_loss_scale", device, [&] { not_on_cpus("update_loss_scale", device); },
      [&] { cuda::update_loss_scale(state, growth_interval); });
}

}  // namespace dptrain::ops
