#pragma once

#include <algorithm>
#include <vector>

namespace dptrain::plan {

/// Cores that the CPU workers of a process share, as long as they have something to do.
struct SharedCores {
  int cores = 1;             ///< of a process
  std::vector<int> threads;  ///< of each rank

  /// Of a rank's cores, where all ranks of its process that are busy have so many threads; 1 where it is alone.
  double speed(size_t rank, int busy_threads) const {
    return static_cast<double>(std::min(cores, busy_threads)) * std::max(1, threads[rank]) /
           (static_cast<double>(std::min(cores, threads[rank])) * std::max(busy_threads, 1));
  }
};

}  // namespace dptrain::plan
