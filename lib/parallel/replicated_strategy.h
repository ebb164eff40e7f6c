#pragma once

#include <deque>

#include "parallel/shared_statistics.h"
#include "parallel/strategy.h"

namespace dptrain::parallel {

/// What strategies with a whole replica on every device share: the team of ranks, evaluation, costs.
class ReplicatedStrategy : public Strategy {
 public:
  std::optional<Score> evaluate(const Dataset& dataset, const std::function<bool()>& stopped) override;
  std::vector<nn::NamedValues> state_dict() override;
  TrainingState training_state() override;
  void restore(const TrainingState& state) override;
  std::vector<Score> take_scores(bool all) override;
  int ranks() const override { return team_.size(); }
  const Device& device(int rank) const override { return team_.device(rank); }
  RankCosts take_costs(int rank) override;
  std::optional<double> statistics_spread() override;

 protected:
  /// `optimizer_on`: whether a rank updates weights itself.
  ReplicatedStrategy(const StrategyContext& context, const std::function<bool(int rank)>& optimizer_on);

  RankTeam& team() { return team_; }
  Replica& replica(int rank) { return *replicas_[static_cast<size_t>(rank)]; }
  /// Part `part` of each micro-batch.
  static StepParts parts_of(const Batch& batch, size_t part);
  /// What batch norms share, at the beginning of a step on a rank, and once its forward passes have been given.
  SharedStatistics& statistics(int rank) { return *statistics_[static_cast<size_t>(rank)]; }
  /// The end of a step on a rank: all that it does there has been given to the device, results published last.
  void end_step(int rank);
  void count_samples(int rank, int64_t samples) { samples_[static_cast<size_t>(rank)] += samples; }

  /// Where weights are averaged: makes the average every replica's weights, and the next time the weights again. Called
  /// on every rank's thread.
  void exchange_average(int rank);
  /// Makes every replica's weights and running statistics those of rank 0, as far as they differ between steps. Called
  /// on every rank's thread.
  virtual void share_weights(int rank) = 0;
  /// Broadcasts rank 0's flat tensor to the same tensor of all.
  void broadcast_from_first(int rank, const Tensor& tensor);

  /// A step's score from its ranks' results, losses added in sample order.
  static Score total(const std::vector<StepResults>& results);

 private:
  /// Copies of weights on the host take the place of a CPU worker's activations, which no step holds between steps.
  void make_room(int rank);

  RankTeam team_;
  std::vector<std::unique_ptr<Replica>> replicas_;
  std::vector<std::unique_ptr<SharedStatistics>> statistics_;
  std::vector<int64_t> samples_;
  std::vector<CommCounts> reported_;
  std::vector<std::deque<StepResults>> results_;  ///< by rank, of steps whose score isn't taken yet
  int64_t skipped_steps_ = 0;                     ///< as of the last `take_scores(true)`
  std::vector<int64_t> reported_skipped_;
};

/// A tensor's memory as a collective sees it.
CommBuffer comm_buffer(const Tensor& tensor);

}  // namespace dptrain::parallel
