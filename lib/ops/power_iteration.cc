#include "ops/power_iteration.h"

#include "ops/dispatch.h"
#include "ops/power_iteration_cpu.h"
#include "ops/power_iteration_cuda.h"

namespace dptrain::ops {

void orthogonalize_columns(const Tensor& matrix) {
  Device& device = matrix.device();
  on_device(
      "orthogonalize_columns", device, [&] { cpu::orthogonalize_columns(matrix); },
      [&] { cuda::orthogonalize_columns(matrix); });
}

void renew_directions(const Tensor& directions, const Tensor& found) {
  Device& device = common_device("renew_directions", {&directions, &found});
  require_shape("renew_directions", "found", found.shape(), directions.shape());
  on_device(
      "renew_directions", device, [&] { cpu::renew_directions(directions, found); },
      [&] { cuda::renew_directions(directions, found); });
}

}  // namespace dptrain::ops
