#pragma once

#include <memory>
#include <vector>

#include "parallel/recorded_exchanges.h"
#include "parallel/replicated_strategy.h"
#include "parallel/shard_groups.h"
#include "parallel/sharded_replica.h"

namespace dptrain::parallel {

/// Fully sharded data parallel: one rank per device, each with its part of the batch, as in ddp. Weights, gradients and
/// optimizer state are sharded: every rank owns an equal part of each unit of the model. A pass gathers a unit's
/// weights when it reaches the unit and frees them behind it. A unit's gradients are summed on their owners, which
/// update their parts (ZeRO stage 3: Rajbhandari et al., 2020; PyTorch FSDP: Zhao et al., 2023).
///
/// With several replicas, each is sharded over neighboring ranks, and the owners of a part sum its gradients over the
/// replicas (PyTorch's HYBRID_SHARD). If sums follow the tree order, and the ranks of a replica are a subtree of it,
/// the weights match ddp's bit for bit.
class Fsdp final : public ReplicatedStrategy {
 public:
  struct Options {
    double unit_mb = 0;  ///< see WeightUnitOptions
    bool reshard_after_forward = true;
    int replicas = 1;             ///< whole copies of the weights, each sharded over neighboring ranks
    bool measures_noise = false;  ///< measures the noise of gradients (gradient_noise.h)
  };
  Fsdp(const StrategyContext& context, const Options& options);

  std::vector<double> measure_speeds(const Dataset& dataset, int64_t samples) override;
  void train_step(std::shared_ptr<const Batch> batch, const StepNumbers& numbers) override;
  TrainingState training_state() override;
  void restore(const TrainingState& state) override;

 private:
  Fsdp(const StrategyContext& context, const Options& options, std::shared_ptr<ShardGroups> groups);
  void swap_average(int rank) override;
  /// Ranks of one replica have different weights.
  bool has_comparable_weights(int rank) override { return groups_->of(rank).copies != nullptr; }
  WeightDigests digests_on(int rank) override;
  nn::ReadParameter read_weights(int rank) override { return sharded(rank).read_weights(); }
  std::vector<nn::NamedValues> dealt_out_state(int rank) override { return sharded(rank).gather_optimizer_state(); }
  void restore_dealt_out(int rank, const TrainingState& state) override { sharded(rank).restore(state); }
  /// Throws (exit code 76) if the processes have read different states. Each process takes its ranks' parts from the
  /// state that it has read itself.
  void require_same(const TrainingState& state);
  /// Whether a rank's steps could be recorded together with all of their exchanges.
  bool can_record_exchanges(int rank);
  /// Lets ranks record their exchanges if all of the world can. With several replicas some groups may lie within a
  /// process, and others between processes.
  void agree_on_recording();
  bool records_exchanges(int rank) const { return records_[static_cast<size_t>(rank)] != 0; }
  void give_step(const RankStep& step);
  void compute_and_update(int rank, const StepParts& parts);
  ShardedReplica& sharded(int rank) { return replica(rank).sharded(); }

  std::shared_ptr<ShardGroups> groups_;
  RecordedExchanges recorded_;
  std::vector<char> records_;  ///< by rank, whose threads write it
  StepsUnderWay steps_;
};

}  // namespace dptrain::parallel
