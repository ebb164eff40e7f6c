#pragma once

#include <condition_variable>
#include <mutex>
#include <vector>

#include "tensor/tensor.h"

namespace dptrain::parallel {

/// The sum of flat f32 tensors over logical shards, in the project's one order of sums (see TreeSum), whichever come
/// first: two halves of a subtree are added as soon as both are there, as a binary counter carries. Several threads may
/// add at once.
///
/// Shards are begun in order, so that what is there of n begun shards is at most the one that each of k threads has in
/// work, those they have just finished, and whole subtrees of the first n - k: all in all no more than
/// k + floor(log2(shards - k + 1)) tensors; with one thread floor(log2(shards)) + 1.
class ShardSum {
 public:
  /// Tensors of so many elements of `device`; one shard or more.
  ShardSum(Device& device, int64_t elements, int shards);

  /// Memory for a shard's values, whatever it holds. Blocks until all shards before it have begun, each by this call;
  /// undefined once `give_up` was called.
  Tensor begin(int shard);
  /// Adds the values of shard number `shard` (from 0), in the memory that it began with; by the calling thread, as work
  /// of `worker`.
  void add(int shard, Tensor values, Device& worker);
  /// After all shards were added: their sum. The next sum may begin.
  Tensor take();
  /// Ends all waits, of a sum that will not be complete.
  void give_up();
  /// Of tensors that were ever held at once.
  int most_held() const { return most_held_; }

 private:
  /// A node of the tree: a shard, or the sum of two others.
  struct Node {
    int parent = -1;  ///< -1: the root
    int sibling = -1;
    bool is_right = false;
    Tensor sum = {};  ///< undefined while it isn't there or where it has become part of the parent's
  };
  /// Makes the nodes over shards [first, first + count); returns the number of their root.
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
