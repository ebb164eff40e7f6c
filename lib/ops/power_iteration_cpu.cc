#include "ops/power_iteration_cpu.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "device/parallel_for.h"
#include "ops/vanished_column.h"

namespace dptrain::ops::cpu {
namespace {

double product(const std::vector<double>& a, const std::vector<double>& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

/// Returns a column's factor after other columns were subtracted from it; arguments are its sums of squares before and
/// after.
double factor_of(double before, double after) {
  if (!std::isfinite(before)) return std::numeric_limits<double>::quiet_NaN();
  return has_vanished(before, after) ? 0 : 1 / std::sqrt(after);
}

/// Runs on one thread, since there are few columns, each as long as a weight has rows.
void orthogonalize(const Tensor& matrix) {
  const int64_t rows = matrix.shape()[0], count = matrix.shape()[1];
  float* values = matrix.data<float>();
  std::vector<std::vector<double>> columns(static_cast<size_t>(count), std::vector<double>(static_cast<size_t>(rows)));
  for (int64_t c = 0; c < count; ++c) {
    auto& column = columns[static_cast<size_t>(c)];
    for (int64_t r = 0; r < rows; ++r) column[static_cast<size_t>(r)] = values[r * count + c];
    const double before = product(column, column);
    for (int64_t k = 0; k < c; ++k) {
      const auto& other = columns[static_cast<size_t>(k)];
      const double share = product(column, other);
      for (size_t r = 0; r < column.size(); ++r) column[r] -= share * other[r];
    }
    const double factor = factor_of(before, product(column, column));
    for (int64_t r = 0; r < rows; ++r) {
      column[static_cast<size_t>(r)] *= factor;
      values[r * count + c] = static_cast<float>(column[static_cast<size_t>(r)]);
    }
  }
}

void renew(const Tensor& directions, const Tensor& found) {
  const int64_t length = found.shape()[1];
  for (int64_t row = 0; row < found.shape()[0]; ++row) {
    const float* from = found.data<float>() + row * length;
    const bool usable = std::all_of(from, from + length, [](float x) { return std::isfinite(x); }) &&
                        std::any_of(from, from + length, [](float x) { return x != 0.f; });
    if (usable) std::copy_n(from, length, directions.data<float>() + row * length);
  }
}

}  // namespace

void orthogonalize_columns(std::span<const Tensor> matrices) {
  parallel_units(matrices.front().device(), static_cast<int64_t>(matrices.size()),
                 [&](int64_t i) { orthogonalize(matrices[static_cast<size_t>(i)]); });
}

void renew_directions(std::span<const Tensor> directions, std::span<const Tensor> found) {
  parallel_units(found.front().device(), static_cast<int64_t>(found.size()), [&](int64_t i) {
    const auto at = static_cast<size_t>(i);
    renew(directions[at], found[at]);
  });
}

}  // namespace dptrain::ops::cpu
