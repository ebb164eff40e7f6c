#pragma once

#include <cstdint>
#include <vector>

#include "device/allocator.h"

namespace dptrain {

/// A device's memory in which lies what a rank's sums in the tree's order are made of (rank_tree_plan.h).
class TreeStaging {
 public:
  explicit TreeStaging(CachingAllocator& allocator) : allocator_(allocator) {}
  ~TreeStaging();
  TreeStaging(const TreeStaging&) = delete;
  TreeStaging& operator=(const TreeStaging&) = delete;

  /// At least so many bytes, the same for all calls as far as they are enough, which are done one after the other; null
  /// of none.
  void* take(int64_t bytes);

 private:
  CachingAllocator& allocator_;
  /// The last one serves all calls; recorded work goes on using those before it.
  std::vector<CachingAllocator::Block> blocks_;
};

}  // namespace dptrain
