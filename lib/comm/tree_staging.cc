#include "comm/tree_staging.h"

#include <bit>

namespace dptrain {

TreeStaging::~TreeStaging() {
  for (const CachingAllocator::Block& block : blocks_) allocator_.free(block, MemoryPurpose::communication);
}

void* TreeStaging::take(int64_t bytes) {
  if (bytes == 0) return nullptr;
  if (blocks_.empty() || blocks_.back().bytes < bytes) {
    // Sizes are powers of two, so all earlier blocks together are no larger than the last one.
    const auto block = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(bytes)));
    blocks_.push_back(allocator_.allocate(block, MemoryPurpose::communication));
  }
  return blocks_.back().memory;
}

}  // namespace dptrain
