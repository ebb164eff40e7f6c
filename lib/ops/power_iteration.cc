#include "ops/power_iteration.h"

#include "base/check.h"
#include "ops/dispatch.h"
#include "ops/power_iteration_cpu.h"
#include "ops/power_iteration_cuda.h"

namespace dptrain::ops {

void orthogonalize_columns(std::span<const Tensor> matrices) {
  if (matrices.empty()) return;
  for (const Tensor& matrix : matrices) common_device("orthogonalize_columns", {&matrices.front(), &matrix});
  on_device(
      "orthogonalize_columns", matrices.front().device(), [&] { cpu::orthogonalize_columns(matrices); },
      [&] { cuda::orthogonalize_columns(matrices); });
}

void renew_directions(std::span<const Tensor> directions, std::span<const Tensor> found) {
  DPTRAIN_CHECK(directions.size() == found.size(), "renew_directions: {} and {}", directions.size(), found.size());
  if (found.empty()) return;
  for (size_t i = 0; i < found.size(); ++i) {
    common_device("renew_directions", {&found.front(), &directions[i], &found[i]});
    require_shape("renew_directions", "found", found[i].shape(), directions[i].shape());
  }
  on_device(
      "renew_directions", found.front().device(), [&] { cpu::renew_directions(directions, found); },
      [&] { cuda::renew_directions(directions, found); });
}

}  // namespace dptrain::ops
