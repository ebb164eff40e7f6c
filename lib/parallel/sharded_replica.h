#pragma once

#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "optim/weight_average.h"
#include "parallel/owned_updates.h"
#include "parallel/replica.h"
#include "parallel/sharded_gradients.h"
#include "parallel/sharded_pass.h"
#include "parallel/sharded_weights.h"

namespace dptrain::parallel {

/// What a rank has of a replica whose weights, gradients and optimizer state are dealt out over all ranks.
class ShardedReplica {
 public:
  struct Options {
    double unit_mb = 0;  ///< as WeightUnitOptions has it
    bool reshard_after_forward = true;
    bool leaves_last_sum_out = false;  ///< PlantedFault::bucket_left_out
    bool has_gpus = false;             ///< some rank's device is one
  };
  /// Places the model of `replica`, which is made from `spec`.
  ShardedReplica(Replica& replica, Communicator& communicator, const ReplicaSpec& spec, const Options& options);

  ShardedWeights& weights() { return weights_; }
  ShardedPass& pass() { return pass_; }
  /// Before a step of these sizes that isn't recorded.
  void begin_step(StepRecorder::Signature sizes) { pass_.begin_step(known_.insert(std::move(sizes)).second); }
  /// From gradients that are summed.
  void update();

  /// Before an evaluation, and once more after it: what is evaluated is the average, where there is one.
  void swap_average();

  // On rank 0 what all ranks have, by parameter; every rank calls it.
  nn::ReadParameter read_weights() const { return updates_.read_from(weights_.own()); }
  std::vector<nn::NamedValues> gather_optimizer_state() { return updates_.gather_state(); }
  /// Empty where there is no average.
  std::vector<nn::NamedValues> gather_average() const;
  /// Takes the rank's part of what a checkpoint has.
  void restore(const TrainingState& state);

 private:
  /// After all changes of its part of the weights but the optimizer's.
  void renew_copies();

  Replica& replica_;
  ShardedWeights weights_;
  ShardedGradients gradients_;
  ShardedPass pass_;
  OwnedUpdates updates_;
  std::optional<optim::WeightAverage> average_;
  std::set<StepRecorder::Signature> known_;  ///< sizes of steps so far
};

}  // namespace dptrain::parallel
