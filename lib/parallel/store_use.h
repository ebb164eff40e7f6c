#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "parallel/served_store.h"

namespace dptrain::parallel {

/// A key-value store in which a strategy keeps the weights.
struct StoreUse {
  std::string type;
  std::string placement;  ///< empty if there is only one place
  /// Bytes of weights, optimizer state and everything else in the store: by device or by server, or
  /// one entry for host memory.
  std::vector<int64_t> bytes;
  std::optional<ServedStore> served = {};  ///< set if the store is on servers
};

}  // namespace dptrain::parallel
