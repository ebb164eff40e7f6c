#include "parallel/shard_sum.h"

#include <algorithm>
#include <bit>

#include "base/check.h"
#include "ops/add.h"

namespace dptrain::parallel {

ShardSum::ShardSum(Device& device, int64_t elements, int shards)
    : device_(device), elements_(elements), shards_(shards) {
  DPTRAIN_CHECK(std::has_single_bit(static_cast<unsigned>(shards)), "a sum over {} shards", shards);
}

Tensor ShardSum::buffer() {
  const std::lock_guard lock(mutex_);
  most_held_ = std::max(most_held_, ++held_);
  if (free_.empty()) return Tensor::zeros(device_, {elements_}, {.purpose = MemoryPurpose::gradients});
  Tensor taken = std::move(free_.back());
  free_.pop_back();
  return taken;
}

void ShardSum::add(int shard, Tensor values, Device& worker) {
  for (int level = 0;; ++level, shard /= 2) {
    Tensor other;
    {
      const std::lock_guard lock(mutex_);
      const auto found = halves_.find({level, shard ^ 1});
      if (found == halves_.end()) {
        halves_.emplace(std::pair{level, shard}, std::move(values));
        return;
      }
      other = std::move(found->second);
      halves_.erase(found);
    }
    if (shard % 2 == 1) std::swap(values, other);
    ops::add_into(values.seen_from(worker), other.seen_from(worker));
    const std::lock_guard lock(mutex_);
    free_.push_back(std::move(other));
    --held_;
  }
}

Tensor ShardSum::take() {
  const std::lock_guard lock(mutex_);
  const auto root = halves_.find({std::countr_zero(static_cast<unsigned>(shards_)), 0});
  DPTRAIN_CHECK(root != halves_.end() && halves_.size() == 1, "a sum over {} shards is taken with {} parts missing",
                shards_, halves_.size());
  Tensor sum = std::move(root->second);
  halves_.clear();
  free_.push_back(sum);
  --held_;
  return sum;
}

}  // namespace dptrain::parallel
