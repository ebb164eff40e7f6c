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

/// A rank's part of a replica whose weights, gradients and optimizer state are sharded over all ranks, or over those
/// that share a copy of the weights.
class ShardedReplica {
 public:
  struct Options {
    double unit_mb = 0;  ///< see WeightUnitOptions
    bool reshard_after_forward = true;
    bool leaves_last_sum_out = false;  ///< PlantedFault::bucket_left_out
    bool has_gpus = false;             ///< some rank's device is a GPU
  };
  /// Places the model of `replica`, which was constructed from `spec`.
  ShardedReplica(Replica& replica, const ShardCommunicators& communicators, const ReplicaSpec& spec,
                 const Options& options);

  ShardedWeights& weights() { return weights_; }
  ShardedPass& pass() { return pass_; }
  /// Called before a step of these sizes that isn't recorded.
  void begin_step(StepRecorder::Signature sizes) { pass_.begin_step(known_.insert(std::move(sizes)).second); }
  /// Updates this rank's weights from summed gradients.
  void update();

  /// Called before and after an evaluation: swaps in the weights' average if there is one, then swaps back.
  void swap_average();

  // Every rank calls these; they return the values of all ranks, by parameter, on the first rank of each copy.
  nn::ReadParameter read_weights() const { return updates_.read_from(weights_.own()); }
  std::vector<nn::NamedValues> gather_optimizer_state() { return updates_.gather_state(); }
  /// Empty if there is no average.
  std::vector<nn::NamedValues> gather_average() const;
  /// Takes this rank's part of a checkpoint.
  void restore(const TrainingState& state);

 private:
  /// Called after every change of this rank's weights except the optimizer's.
  void renew_copies();

  Replica& replica_;
  ShardedWeights weights_;
  ShardedGradients gradients_;
  ShardedPass pass_;
  OwnedUpdates updates_;
  std::optional<optim::WeightAverage> average_;
  std::set<StepRecorder::Signature> known_;  ///< sizes of the steps so far
};

}  // namespace dptrain::parallel
