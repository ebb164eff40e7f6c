#pragma once

#include <algorithm>
#include <vector>

namespace dptrain::plan {

/// The cores that the CPU workers of a process share while they are busy.
struct SharedCores {
  int cores = 1;             ///< of a process
  std::vector<int> threads;  ///< of each rank

  /// The speed of a busy rank when the busy ranks of its process have `busy_threads` in all; 1 if it is alone.
  double speed(size_t rank, int busy_threads) const { return share(busy_threads) / share(threads[rank]); }
  /// The share of a core that each thread gets.
  double share(int of_threads) const { return std::min(1.0, static_cast<double>(cores) / of_threads); }
};

}  // namespace dptrain::plan
