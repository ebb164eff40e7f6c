#include "data/batch_split.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace dptrain {

BatchSplit::BatchSplit(std::vector<int64_t> weights) : weights_(std::move(weights)), before_({0}) {
  for (const int64_t weight : weights_) before_.push_back(before_.back() + weight);
  DPTRAIN_CHECK(before_.back() > 0 && std::ranges::min(weights_) >= 0, "{} weights that add up to {}", weights_.size(),
                before_.back());
}

BatchSplit BatchSplit::weighted(const std::vector<double>& weights) {
  constexpr double kScale = 1e6;
  std::vector<int64_t> whole;
  for (const double weight : weights) whole.push_back(std::llround(weight * kScale));
  return BatchSplit(std::move(whole));
}

std::pair<int64_t, int64_t> BatchSplit::range(int part, int64_t samples) const {
  const auto at = [&](int p) { return before_[static_cast<size_t>(p)] * samples / before_.back(); };
  return {at(part), at(part + 1)};
}

bool BatchSplit::is_even() const {
  return std::ranges::all_of(weights_, [&](int64_t weight) { return weight == weights_[0]; });
}

}  // namespace dptrain
