#include "comm/staging_pool.h"

#include <utility>

namespace dptrain {

StagingPool::Memory StagingPool::take(int64_t bytes) {
  {
    const std::lock_guard lock(mutex_);
    const auto found = free_.lower_bound(bytes);
    // Leave much larger blocks to requests that need them.
    if (found != free_.end() && found->first <= 2 * bytes) {
      const int64_t size = found->first;
      std::byte* memory = found->second.release();
      free_.erase(found);
      return Memory(memory, GiveBack(shared_from_this(), size));
    }
  }
  return Memory(std::make_unique_for_overwrite<std::byte[]>(static_cast<size_t>(bytes)).release(),
                GiveBack(shared_from_this(), bytes));
}

void StagingPool::give_back(std::byte* memory, int64_t bytes) {
  std::unique_ptr<std::byte[]> owned(memory);
  const std::lock_guard lock(mutex_);
  free_.emplace(bytes, std::move(owned));
}

}  // namespace dptrain
