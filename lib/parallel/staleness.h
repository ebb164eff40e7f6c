#pragma once

#include <cstdint>
#include <vector>

namespace dptrain::parallel {

/// How stale the weights were from which gradients were computed. Staleness counts the updates by other workers that a
/// server made between giving a worker its weights and getting the gradients of these weights.
struct Staleness {
  std::vector<int64_t> pushes;  ///< by staleness, from 0: the number of pushes with it

  void count(int64_t staleness);
  Staleness& operator+=(const Staleness& other);
  int64_t max() const { return pushes.empty() ? 0 : static_cast<int64_t>(pushes.size()) - 1; }
  double mean() const;
};

}  // namespace dptrain::parallel
