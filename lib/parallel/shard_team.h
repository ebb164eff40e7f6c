#pragma once

#include <exception>
#include <memory>
#include <mutex>
#include <vector>

#include "parallel/replica.h"
#include "parallel/shard_sum.h"
#include "parallel/worker_threads.h"

namespace dptrain::parallel {

/// The logical shards of a batch that one rank computes. Each shard is computed by one thread, with its own batch
/// statistics, so that its contribution doesn't depend on the rank that computes it. A CPU worker computes as many
/// shards at a time as it has threads, a GPU one. Gradients and running statistics are added in the tree over shard
/// numbers; ShardSum says how much memory that takes.
///
/// Used by the rank's thread, which also computes shards.
class ShardTeam {
 public:
  /// `own`: the replica whose weights all shards compute with. The shards are those of `spec`.
  ShardTeam(Replica& own, const ReplicaSpec& spec);
  ~ShardTeam();

  int shards() const { return static_cast<int>(shards_.size()); }
  /// The device into which a shard's samples are loaded.
  Device& device(int shard) { return shards_[static_cast<size_t>(shard)]->device(); }

  struct Step {
    StepNumbers numbers;
    StepTotals totals;
  };
  /// Begins every shard's step. `parts`: for one shard after the other, its part of every micro-batch.
  void begin_step(const StepParts& parts, const Step& step);
  /// Computes the sums over this rank's shards and leaves them in `own`'s model: the gradients, and the running
  /// statistics weighted by samples. `parts`: as in `begin_step`. `unused`: as in Replica::forward_backward; several
  /// threads may call it. A GPU may record this.
  void forward_backward(const StepParts& parts, const Step& step, const Replica::UnusedHook& unused);
  /// Ends the steps, once all of their device work has been given.
  void end_step();
  /// Returns the results, shard by shard, of the oldest step whose results haven't been taken.
  StepResults take_results();
  /// Changes when recorded work of the shards has become invalid; see StepExchange::generation.
  int64_t generation() const;

 private:
  void compute(int shard, const StepParts& parts, const Step& step, const Replica::UnusedHook& unused);
  /// A shard's part of every micro-batch.
  StepParts parts_of(int shard, const StepParts& parts) const;

  /// The weight of a shard's running statistics in the sum over all shards.
  float share_of(int shard, const StepParts& parts, const StepTotals& totals) const;

  Replica& own_;
  int first_shard_;  ///< index of this rank's first shard among all of the batch
  bool first_statistics_;
  std::vector<std::unique_ptr<Device>> cores_;  ///< empty if the rank computes one shard at a time
  std::vector<std::unique_ptr<Replica>> shards_;
  ShardSum sum_;
  std::unique_ptr<WorkerThreads> threads_;  ///< null if the rank's thread computes alone
};

}  // namespace dptrain::parallel
