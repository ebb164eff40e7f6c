#pragma once

#include <memory>
#include <vector>

#include "parallel/averaging_steps.h"
#include "parallel/replica_mean.h"
#include "parallel/replicated_strategy.h"

namespace dptrain::parallel {

/// A rank a device, each with its part of the batch, its own replica and optimizer, which makes its update from its own
/// gradients alone; after some steps all replicas become their mean (Local SGD: Stich, 2019; after a warm-up,
/// post-local SGD: Lin et al., 2020). Whatever looks at the weights between sees the mean, and changes nothing that is
/// trained.
///
/// A rank's gradients are the whole batch's, as far as they are of its samples, over the share of these: those of a
/// mean over its own samples. In the mean of replicas each counts by its samples, so that the mean of steps that are
/// linear in their gradients, as SGD's with momentum are, is ddp's step, whatever the parts: with a mean after every
/// step they are the same training, but for rounding and what averagings that are compressed leave for later ones.
class LocalSgd final : public ReplicatedStrategy {
 public:
  /// Of a mean: an outer step, whether what optimizers keep is averaged, too, and what weights are sent as.
  struct Options {
    AveragingSteps averaging = {};
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
  /// Makes the mean what all replicas hold, and the next time what each of them held.
  void swap_all(ReplicaMean::Shown shown);

  AveragingSteps averaging_;
  std::vector<std::unique_ptr<ReplicaMean>> means_;  ///< by rank
  StepsUnderWay steps_;
};

}  // namespace dptrain::parallel
