#pragma once

#include <vector>

#include "parallel/store_slices.h"

namespace dptrain::parallel {

/// What the servers of a key-value store hold, and when they update it.
struct ServedStore {
  std::vector<StoreSlice> slices;  ///< of all servers, in the order of keys
  int state_tensors = 0;           ///< that the optimizer keeps of each beside its weights
  /// Each slice as soon as all workers have pushed it; otherwise all together, once everything has been.
  bool updates_at_once = true;
  bool measures = false;  ///< as OptimizerSpec says
};

}  // namespace dptrain::parallel
