#include "train/paired_difference.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <vector>

#include "base/check.h"

namespace dptrain::train {

Spread spread_of(std::span<const double> values) {
  DPTRAIN_CHECK(!values.empty(), "nothing to take the mean of");
  const auto count = static_cast<double>(values.size());
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / count;
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  return {.mean = mean, .deviation = values.size() > 1 ? std::sqrt(squares / (count - 1)) : 0};
}

double student_t_within(double t, int degrees_of_freedom) {
  const double angle = std::atan(std::abs(t) / std::sqrt(degrees_of_freedom));
  const double sine = std::sin(angle), cosine = std::cos(angle);
  const bool odd = degrees_of_freedom % 2 == 1;
  // 1 + (1/2) cos^2 + (1 3)/(2 4) cos^4 + ..., or cos + (2/3) cos^3 + (2 4)/(3 5) cos^5 + ..., up to cos^(degrees - 2).
  double term = odd ? cosine : 1, sum = 0;
  for (int power = odd ? 1 : 0; power <= degrees_of_freedom - 2; power += 2) {
    sum += term;
    term *= cosine * cosine * (power + 1) / (power + 2);
  }
  return odd ? 2 / std::numbers::pi * (angle + sine * sum) : sine * sum;
}

PairedDifference paired_difference(std::span<const double> first, std::span<const double> second) {
  DPTRAIN_CHECK(first.size() == second.size() && first.size() >= 2, "{} values against {}", first.size(),
                second.size());
  std::vector<double> differences;
  for (size_t i = 0; i < first.size(); ++i) differences.push_back(second[i] - first[i]);
  const Spread spread = spread_of(differences);
  PairedDifference result{.mean = spread.mean};
  if (spread.deviation == 0) {
    result.p_value = spread.mean == 0 ? 1 : 0;
  } else {
    const auto count = static_cast<double>(differences.size());
    const double t = spread.mean / (spread.deviation / std::sqrt(count));
    result.p_value = std::max(0.0, 1 - student_t_within(t, static_cast<int>(differences.size()) - 1));
  }
  result.significant = result.p_value < 0.05;
  return result;
}

}  // namespace dptrain::train
