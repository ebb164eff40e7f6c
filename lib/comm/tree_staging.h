#pragma once

#include <cstdint>
#include <vector>

#include "device/allocator.h"

namespace dptrain {

/// A device's memory for a rank's sums in the tree's order (rank_tree_plan.h).
class TreeStaging {
 public:
  explicit TreeStaging(CachingAllocator& allocator) : allocator_(allocator) {}
  ~TreeStaging();
  TreeStaging(const TreeStaging&) = delete;
  TreeStaging& operator=(const TreeStaging&) = delete;

  /// Returns at least `bytes` bytes; null for 0. All calls get the same memory as long as it is large enough, because
  /// they run one after the other.
  void* take(int64_t bytes);

 private:
  CachingAllocator& allocator_;
  /// The last block serves all calls. Recorded work goes on using the earlier ones.
  std::vector<CachingAllocator::Block> blocks_;
};

}  // namespace dptrain
