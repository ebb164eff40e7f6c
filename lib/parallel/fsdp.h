#pragma once

#include <memory>
#include <vector>

#include "parallel/recorded_exchanges.h"
#include "parallel/replicated_strategy.h"
#include "parallel/sharded_replica.h"

namespace dptrain::parallel {

/// Fully sharded data parallel: a rank a device, each with its part of the batch, as in ddp; but weights, gradients and
/// optimizer state are dealt out, an equal part of each unit of the model to every rank. A unit's weights are gathered
/// where a pass comes to it and forgotten behind it, its gradients are summed on their owners, which make the update
/// (ZeRO's third stage: Rajbhandari et al., 2020; PyTorch FSDP: Zhao et al., 2023). Where sums are made in the tree's
/// order it ends in the bits of ddp.
class Fsdp final : public ReplicatedStrategy {
 public:
  struct Options {
    double unit_mb = 0;  ///< as WeightUnitOptions has it
    bool reshard_after_forward = true;
  };
  Fsdp(const StrategyContext& context, const Options& options);

  std::vector<double> measure_speeds(const Dataset& dataset, int64_t samples) override;
  void train_step(std::shared_ptr<const Batch> batch, const StepNumbers& numbers) override;
  TrainingState training_state() override;
  void restore(const TrainingState& state) override;

 private:
  void swap_average(int rank) override;
  /// No two ranks have the same weights.
  bool has_comparable_weights(int) override { return false; }
  nn::ReadParameter read_weights(int rank) override { return sharded(rank).read_weights(); }
  std::vector<nn::NamedValues> dealt_out_state(int rank) override { return sharded(rank).gather_optimizer_state(); }
  void restore_dealt_out(int rank, const TrainingState& state) override { sharded(rank).restore(state); }
  /// Of several processes, each of which takes its parts of what it has read.
  void require_same(const TrainingState& state);
  /// Whether a rank's steps are recorded with all that it exchanges in them.
  bool records_exchanges(int rank);
  void give_step(const RankStep& step);
  void compute_and_update(int rank, const StepParts& parts);
  ShardedReplica& sharded(int rank) { return replica(rank).sharded(); }

  RecordedExchanges recorded_;
  StepsUnderWay steps_;
};

}  // namespace dptrain::parallel
