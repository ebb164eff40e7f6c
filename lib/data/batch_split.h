#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace dptrain {

/// How samples are shared out among parts: contiguous runs of them, as even as the parts' weights ask for.
class BatchSplit {
 public:
  /// Part p of P has samples floor(p * M / P) to floor((p + 1) * M / P) of M.
  static BatchSplit even(int parts) { return BatchSplit(std::vector<int64_t>(static_cast<size_t>(parts), 1)); }
  /// The same with whole weights, not all zero; a part of weight 0 has no samples.
  explicit BatchSplit(std::vector<int64_t> weights);
  /// With weights from 0 to 1,000,000, by their first six decimals.
  static BatchSplit weighted(const std::vector<double>& weights);

  int parts() const { return static_cast<int>(weights_.size()); }
  /// The samples of a part: [first, second).
  std::pair<int64_t, int64_t> range(int part, int64_t samples) const;
  const std::vector<int64_t>& weights() const { return weights_; }
  bool is_even() const;

 private:
  std::vector<int64_t> weights_;
  std::vector<int64_t> before_;  ///< the sum of the weights before each part, then of all
};

}  // namespace dptrain
