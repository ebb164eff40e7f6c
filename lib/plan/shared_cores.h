#pragma once

#include <algorithm>
#include <vector>

namespace dptrain::plan {

/// Cores that the CPU workers of a process share, as long as they have something to do.
struct SharedCores {
  int cores = 1;             ///< of a process
  std::vector<int> threads;  ///< of each rank

  /// Of a busy rank's cores, where all ranks of its process that are busy have so many threads; 1 where it is alone.
  double speed(size_t rank, int busy_threads) const { return share(busy_threads) / share(threads[rank]); }
  /// Of a core, that each of so many threads has.
  double share(int of_threads) const { return std::min(1.0, static_cast<double>(cores) / of_threads); }
};

}  // namespace dptrain::plan
