#pragma once

#include <memory>
#include <vector>

#include "parallel/averaging_steps.h"
#include "parallel/replica_mean.h"
#include "parallel/replicated_strategy.h"

namespace dptrain::parallel {

/// Local SGD: one rank per device, each with its part of the batch, its own replica and its own optimizer. Each rank
/// updates from its own gradients alone, and after some steps all replicas are averaged (Local SGD: Stich, 2019; with a
/// warm-up, post-local SGD: Lin et al., 2020) or combined by Adasum (Maleki et al., 2021). Whoever reads the weights
/// between averagings sees the mean; reading changes nothing that is trained.
///
/// A rank takes its samples' part of the whole batch's gradient and divides it by its share of the samples. That is the
/// gradient of the mean loss over its own samples. The mean of replicas weights each replica by its samples. If a step
/// is linear in its gradients, as with SGD and momentum, the mean of all ranks' steps is ddp's step, however the batch
/// is shared out. With a mean after every step, local_sgd and ddp are the same training, except for rounding and for
/// what compressed averagings leave for later ones.
class LocalSgd final : public ReplicatedStrategy {
 public:
  /// Options of an averaging: how weights are combined, its outer step, whether optimizer state is averaged too, and
  /// how weights are compressed.
  struct Options {
    AveragingSteps averaging = {};
    Combination combination = Combination::mean;
    OuterStep outer = {};
    bool averages_state = true;
    CompressionOptions compress = {};
  };
  LocalSgd(const StrategyContext& context, const Options& options);

  std::optional<AveragingSteps> averaging() const override { return averaging_; }
  void average() override;
  void train_step(std::shared_ptr<const Batch> batch, const StepNumbers& numbers) override;
  std::vector<nn::NamedValues> state_dict() override;
  void for_each_state(const std::function<void(const nn::NamedValues&)>& take) override;
  TrainingState training_state() override;

 private:
  void share_weights(int) override {}
  void swap_average(int rank) override;
  bool has_comparable_weights(int rank) override { return mean(rank).is_comparable(); }
  void restore_dealt_out(int rank, const TrainingState& state) override { mean(rank).load_state(state); }
  std::vector<nn::NamedValues> compression_state(int rank) override { return mean(rank).gather_compression_state(); }
  StepTotals totals_on(const RankStep& step) const override;
  void give_step(const RankStep& step);
  void average_on(int rank, bool with_outer_step);
  ReplicaMean& mean(int rank) { return *means_[static_cast<size_t>(rank)]; }
  /// Gives all replicas the mean; the next call gives each replica its own values back.
  void swap_all(ReplicaMean::Shown shown);

  AveragingSteps averaging_;
  std::vector<std::unique_ptr<ReplicaMean>> means_;  ///< by rank
  StepsUnderWay steps_;
};

}  // namespace dptrain::parallel
