#include "ops/residual.h"

#include "ops/dispatch.h"
#include "ops/residual_cpu.h"
#include "ops/residual_cuda.h"

namespace dptrain::ops {

void take_up_residual(const Tensor& residual, const Tensor& gradients, const Tensor& scale) {
  Device& device = common_device("take_up_residual", {&residual, &gradients, &scale});
  require_shape("take_up_residual", "gradients", gradients.shape(), residual.shape());
  on_device(
      "take_up_residual", device, [&] { cpu::take_up_residual(residual, gradients, scale); },
      [&] { cuda::take_up_residual(residual, gradients, scale); });
}

void leave_residual(const Tensor& residual, const Tensor& sent, const Tensor& scale) {
  Device& device = common_device("leave_residual", {&residual, &sent, &scale});
  require_shape("leave_residual", "what was sent", sent.shape(), residual.shape());
  on_device(
      "leave_residual", device, [&] { cpu::leave_residual(residual, sent, scale); },
      [&] { cuda::leave_residual(residual, sent, scale); });
}

}  // namespace dptrain::ops
