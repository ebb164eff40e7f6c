#pragma once

#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <vector>

#include "parallel/replica.h"
#include "parallel/shard_sum.h"
#include "parallel/worker_threads.h"

namespace dptrain::parallel {

/// The logical shards of a batch that one rank computes: each by one thread, with batch statistics of its own, so that
/// what it contributes doesn't depend on who computes it. A CPU worker computes as many at a time as it has threads, a
/// GPU one. Their gradients and running statistics are added by the tree over shard numbers; see ShardSum for what that
/// holds in memory.
///
/// Used by the rank's thread, which is one of those that compute.
class ShardTeam {
 public:
  /// For the replica `own`, whose weights all shards compute with; the shards of `spec`.
  ShardTeam(Replica& own, const ReplicaSpec& spec);
  ~ShardTeam();

  int shards() const { return static_cast<int>(shards_.size()); }
  /// Where the samples of a shard are loaded.
  Device& device(int shard) { return shards_[static_cast<size_t>(shard)]->device(); }

  struct Step {
    StepNumbers numbers;
    StepTotals totals;
  };
  /// Leaves in `own`'s model the sums over this rank's shards: of gradients, and of running statistics, each weighted
  /// by its samples. `parts`: shard by shard those of every micro-batch. `unused` as in Replica::forward_backward;
  /// several threads may call it.
  void forward_backward(const StepParts& parts, const Step& step, const Replica::UnusedHook& unused);
  /// What the oldest step has shown whose results weren't taken, shard by shard.
  StepResults take_results();

 private:
  void compute(int shard, const StepParts& parts, const Step& step, const Replica::UnusedHook& unused);

  /// What a shard's running statistics count for in the sum over all shards.
  float share_of(int shard, const StepParts& parts, const StepTotals& totals) const;

  Replica& own_;
  int first_shard_;  ///< of them, among all of the batch
  bool first_statistics_;
  std::vector<std::unique_ptr<Device>> cores_;  ///< empty where the rank computes one shard at a time
  std::vector<std::unique_ptr<Replica>> shards_;
  ShardSum sum_;
  std::deque<StepResults> results_;
  std::unique_ptr<WorkerThreads> threads_;  ///< null where the rank's thread computes alone
};

}  // namespace dptrain::parallel
