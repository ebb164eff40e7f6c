#pragma once

#include <vector>

#include "parallel/store_slices.h"

namespace dptrain::parallel {

/// The weights that the servers of a key-value store hold, and when they are updated.
struct ServedStore {
  std::vector<StoreSlice> slices;  ///< of all servers, in the order of the keys
  int state_tensors = 0;           ///< optimizer tensors per slice, besides its weights
  /// Each slice is updated as soon as all workers have pushed it; if false, all slices are updated together.
  bool updates_at_once = true;
  bool measures = false;  ///< see OptimizerSpec
};

}  // namespace dptrain::parallel
