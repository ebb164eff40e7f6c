#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace dptrain {

/// How samples are divided among parts: into contiguous runs whose lengths follow the parts' weights.
class BatchSplit {
 public:
  /// Part p of P gets samples floor(p * M / P) to floor((p + 1) * M / P) of M.
  static BatchSplit even(int parts) { return BatchSplit(std::vector<int64_t>(static_cast<size_t>(parts), 1)); }
  /// Divides by whole weights, not all zero. A part of weight 0 gets no samples.
  explicit BatchSplit(std::vector<int64_t> weights);
  /// Divides by weights from 0 to 1,000,000; only their first six decimals count.
  static BatchSplit weighted(const std::vector<double>& weights);

  int parts() const { return static_cast<int>(weights_.size()); }
  /// The samples of a part: [first, second).
  std::pair<int64_t, int64_t> range(int part, int64_t samples) const;
  const std::vector<int64_t>& weights() const { return weights_; }
  bool is_even() const;

 private:
  std::vector<int64_t> weights_;
  std::vector<int64_t> before_;  ///< the sum of the weights before each part, then the total
};

}  // namespace dptrain
