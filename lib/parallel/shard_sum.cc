#include "parallel/shard_sum.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "comm/tree_sum.h"
#include "ops/add.h"

namespace dptrain::parallel {

ShardSum::ShardSum(Device& device, int64_t elements, int shards)
    : device_(device), elements_(elements), leaves_(static_cast<size_t>(std::max(shards, 0))) {
  DPTRAIN_CHECK(shards >= 1, "a sum over {} shards", shards);
  make_nodes(0, shards);
}

int ShardSum::make_nodes(int first, int count) {
  const int here = static_cast<int>(nodes_.size());
  nodes_.emplace_back();
  if (count == 1) {
    leaves_[static_cast<size_t>(first)] = here;
    return here;
  }
  const int left_count = tree_left_ranks(count);
  const int left = make_nodes(first, left_count), right = make_nodes(first + left_count, count - left_count);
  nodes_[static_cast<size_t>(left)] = {.parent = here, .sibling = right, .is_right = false};
  nodes_[static_cast<size_t>(right)] = {.parent = here, .sibling = left, .is_right = true};
  return here;
}

Tensor ShardSum::begin(int shard) {
  std::unique_lock lock(mutex_);
  // No deadline: other threads compute about as long as this one, and a thread that fails calls give_up.
  begun_one_.wait(lock, [&] { return begun_ == shard || given_up_; });
  if (given_up_) return {};
  ++begun_;
  begun_one_.notify_all();
  most_held_ = std::max(most_held_, ++held_);
  if (free_.empty()) return Tensor::zeros(device_, {elements_}, {.purpose = MemoryPurpose::gradients});
  Tensor taken = std::move(free_.back());
  free_.pop_back();
  return taken;
}

void ShardSum::add(int shard, Tensor values, Device& worker) {
  for (int at = leaves_[static_cast<size_t>(shard)];;) {
    Node& node = nodes_[static_cast<size_t>(at)];
    Tensor other;
    {
      const std::lock_guard lock(mutex_);
      if (node.parent < 0 || !nodes_[static_cast<size_t>(node.sibling)].sum.defined()) {
        node.sum = std::move(values);
        return;
      }
      other = std::exchange(nodes_[static_cast<size_t>(node.sibling)].sum, {});
    }
    if (node.is_right) std::swap(values, other);
    ops::add_into(values.seen_from(worker), other.seen_from(worker));
    at = node.parent;
    const std::lock_guard lock(mutex_);
    free_.push_back(std::move(other));
    --held_;
  }
}

Tensor ShardSum::take() {
  const std::lock_guard lock(mutex_);
  Tensor sum = std::exchange(nodes_.front().sum, {});
  DPTRAIN_CHECK(sum.defined() && held_ == 1, "a sum over {} shards is taken with {} parts of it there", leaves_.size(),
                held_);
  free_.push_back(sum);
  --held_;
  begun_ = 0;
  return sum;
}

void ShardSum::give_up() {
  {
    const std::lock_guard lock(mutex_);
    given_up_ = true;
  }
  begun_one_.notify_all();
}

}  // namespace dptrain::parallel
