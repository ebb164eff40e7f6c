#pragma once

#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "tensor/tensor.h"

namespace dptrain::parallel {

/// The sum of flat f32 tensors over logical shards, by the balanced binary tree over their numbers, whichever come
/// first: two halves of a subtree are added as soon as both are there, as a binary counter carries. Several threads may
/// add at once.
///
/// A device that computes k shards at a time holds no more than k + log2(shards) tensors: those in work, and the sums
/// of whole subtrees.
class ShardSum {
 public:
  /// Tensors of so many elements of `device`. `shards`: a power of two.
  ShardSum(Device& device, int64_t elements, int shards);

  /// Memory for a shard's values, whatever it holds.
  Tensor buffer();
  /// Adds the values of shard number `shard` (from 0), in memory of `buffer`; by the calling thread, as work of
  /// `worker`.
  void add(int shard, Tensor values, Device& worker);
  /// After all shards were added: their sum. The next sum may begin.
  Tensor take();
  /// Of tensors that were ever held at once.
  int most_held() const { return most_held_; }

 private:
  Device& device_;
  int64_t elements_;
  int shards_;
  std::mutex mutex_;
  std::vector<Tensor> free_;
  int held_ = 0;
  int most_held_ = 0;
  /// Sums of whole subtrees whose other half isn't there yet, by (level, number at that level).
  std::map<std::pair<int, int>, Tensor> halves_;
};

}  // namespace dptrain::parallel
