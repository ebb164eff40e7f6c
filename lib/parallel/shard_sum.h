#pragma once

#include <condition_variable>
#include <mutex>
#include <vector>

#include "tensor/tensor.h"

namespace dptrain::parallel {

/// The sum of flat f32 tensors over logical shards, in the project's fixed order of sums (see TreeSum), whatever order
/// they arrive in. Two halves of a subtree are added as soon as both are there, as a binary counter carries. Several
/// threads may add at once.
///
/// Shards are begun in order. Of n begun shards, these tensors are held at most: one per thread (k threads) that it is
/// working on, those that the threads have just finished, and whole subtrees of the first n - k. This is at most k +
/// floor(log2(shards - k + 1)) tensors; with one thread it is floor(log2(shards)) + 1.
class ShardSum {
 public:
  /// Sums tensors of `elements` elements on `device`. `shards`: at least 1.
  ShardSum(Device& device, int64_t elements, int shards);

  /// Returns memory for a shard's values, with undefined contents. Blocks until `begin` has been called for all shards
  /// before it. Returns an undefined tensor once `give_up` was called.
  Tensor begin(int shard);
  /// Adds the values of shard number `shard` (from 0), in the memory that `begin` returned. Runs on the calling thread,
  /// as work of `worker`.
  void add(int shard, Tensor values, Device& worker);
  /// Returns the sum once all shards have been added. The next sum may then begin.
  Tensor take();
  /// Ends all waits of a sum that will not be completed.
  void give_up();
  /// The largest number of tensors held at once so far.
  int most_held() const { return most_held_; }

 private:
  /// A node of the tree: a shard, or the sum of two nodes.
  struct Node {
    int parent = -1;  ///< -1: the root
    int sibling = -1;
    bool is_right = false;
    Tensor sum = {};  ///< undefined if not computed yet, or already part of the parent's sum
  };
  /// Makes the nodes over shards [first, first + count). Returns the number of their root.
  int make_nodes(int first, int count);

  Device& device_;
  int64_t elements_;
  std::vector<Node> nodes_;
  std::vector<int> leaves_;  ///< the node of each shard
  std::mutex mutex_;
  std::condition_variable begun_one_;
  int begun_ = 0;
  bool given_up_ = false;
  std::vector<Tensor> free_;
  int held_ = 0;
  int most_held_ = 0;
};

}  // namespace dptrain::parallel
