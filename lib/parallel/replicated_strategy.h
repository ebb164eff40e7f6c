#pragma once

#include <atomic>
#include <deque>
#include <mutex>

#include "parallel/comm_buffer.h"
#include "parallel/shared_statistics.h"
#include "parallel/steps_under_way.h"
#include "parallel/strategy.h"

namespace dptrain::parallel {

/// What a device has of a replica, and does.
struct ReplicaAssignment {
  ReplicaDuties duties = {};
  nn::StageRanges stages = {{}};
  /// Of duties that leave it to whoever gives them: places a replica's model. May be empty.
  std::function<void(Replica&, Communicator&)> place = {};
};

/// What strategies with a replica on every device, or a part of one, share: the team of ranks, evaluation, costs.
class ReplicatedStrategy : public Strategy {
 public:
  std::vector<Device*> batch_devices() override { return part_devices(); }
  std::vector<double> measure_speeds(const Dataset& dataset, int64_t samples) override;
  void set_split(const BatchSplit& split) override;
  BatchSplit batch_split() override { return shards_.empty() ? split_ : BatchSplit::even(shards_.back().end); }
  int first_part() override;
  std::optional<Score> evaluate(const Dataset& dataset, const EvaluationWatch& watch) override;
  std::vector<nn::NamedValues> state_dict() override;
  void for_each_state(const std::function<void(const nn::NamedValues&)>& take) override;
  TrainingState training_state() override;
  void restore(const TrainingState& state) override;
  std::vector<Score> take_scores(bool all) override;
  std::optional<DivergedStep> diverged_step() override;
  std::vector<WeightDigests> weight_digests() override;
  int ranks() const override { return team_.size(); }
  int world_size() const override { return team_.world_size(); }
  int first_rank() const override { return team_.first_rank(); }
  const Device& device(int rank) const override { return team_.device(rank); }
  RankCosts take_costs(int rank) override;
  CommWays sum_ways() override { return team_.communicator(0).ways(); }
  std::optional<double> statistics_spread() override;
  void show_steps(const ShownSteps& steps) override { team_.show_steps(steps); }
  std::vector<std::vector<TimelineRow>> take_timelines() override { return team_.take_timelines(); }

 protected:
  /// `optimizer_on`: whether a rank of this process updates weights itself.
  ReplicatedStrategy(const StrategyContext& context, const std::function<bool(int rank)>& optimizer_on);
  /// The same of replicas in parts, of ranks of the world.
  ReplicatedStrategy(const StrategyContext& context,
                     const std::function<ReplicaAssignment(int world_rank)>& assignment_of);

  RankTeam& team() { return team_; }
  const BatchSplit& split() const { return split_; }
  Replica& replica(int rank) { return *replicas_[static_cast<size_t>(rank)]; }
  /// A rank's part of each micro-batch; of logical shards its first one's, then its second one's...
  StepParts parts_of(const Batch& batch, int rank);
  /// What a step's losses are divided by.
  StepTotals totals_of(const Batch& batch) const;
  /// Whether the last sum over ranks is left out by a planted fault.
  bool leaves_last_sum_out() const { return planted_ == PlantedFault::bucket_left_out; }
  /// Where each part of a micro-batch is loaded, rank by rank.
  std::vector<Device*> part_devices();
  /// A rank's end of the communicator of those ranks that have the same part of the model.
  Communicator& same_stages_communicator(int rank) { return *same_stages_communicators_[static_cast<size_t>(rank)]; }
  /// What batch norms share, at the beginning of a step on a rank, and once its forward passes have been given.
  SharedStatistics& statistics(int rank) { return *statistics_[static_cast<size_t>(rank)]; }
  /// A step as a rank makes it.
  struct RankStep {
    int rank;
    Replica& replica;
    const Batch& batch;
    StepParts parts;  ///< the rank's own
    int64_t number;   ///< from 1
    int64_t samples() const;
  };
  /// Has every rank make a step on its own parts of a batch. `give` gives a rank's device the work; the step is begun
  /// there before that, and ended behind it.
  void make_step(StepsUnderWay& steps, std::shared_ptr<const Batch> batch, const StepNumbers& numbers,
                 std::function<void(const RankStep&)> give);
  /// What a rank divides its losses by.
  virtual StepTotals totals_on(const RankStep& step) const { return totals_of(step.batch); }
  /// The end of a step on a rank: all that it does there has been given to the device, results published last.
  void end_step(int rank);
  /// The values of each rank's own running statistics, by rank of the world: on the process that has rank 0. Blocks.
  std::vector<RunningValues> running_values();
  /// Samples that are evaluated in one call: where memory is limited no more than a device trains on at once, for which
  /// it has been enough.
  int64_t evaluation_samples(const Dataset& dataset) const;
  /// And what of their text: where memory is limited no more than is trained on.
  PredictedRows evaluated_rows() const { return most_at_once_ > 0 ? PredictedRows::masked : PredictedRows::all; }
  void count_samples(int rank, int64_t samples) { samples_[static_cast<size_t>(rank)] += samples; }
  /// Those of every rank's own parts.
  void count_samples(const Batch& batch);

  /// Where what is evaluated isn't what is trained, as a moving average of the weights: makes it every replica's
  /// weights, and the next time the weights again. Called on every rank's thread.
  virtual void swap_average(int rank);
  /// Makes every replica's weights and running statistics those of rank 0, as far as they differ between steps. Where
  /// every rank makes the same updates only the running statistics do. Called on every rank's thread.
  virtual void share_weights(int rank) { broadcast_from_first(rank, replica(rank).model().running_states()); }
  /// Where a step's update is made in the course of the next one: makes what is left of it. Called on every rank's
  /// thread before anybody looks at its weights.
  virtual void finish_updates(int) {}
  /// Whether a rank's weights, between steps, are to have the bits that all others on the same kind of device have.
  virtual bool has_comparable_weights(int) { return true; }
  /// Where processes aren't in step: blocks until all are done with their steps.
  virtual void meet() {}
  /// Where processes aren't in step: brings all replicas to the same weights, once all have done their steps. Called on
  /// every rank's thread.
  virtual void settle(int) {}
  /// Reads weights that no replica has as a whole, as nn::state_dict takes it: on rank 0. Called on every rank's
  /// thread; each reads all of them, in one order.
  virtual nn::ReadParameter read_weights(int) { return {}; }
  /// Optimizer state that no replica has, as the first one would name it: on rank 0. Called on every rank's thread, and
  /// so is the way back.
  virtual std::vector<nn::NamedValues> dealt_out_state(int) { return {}; }
  virtual void restore_dealt_out(int, const TrainingState&) {}
  /// What lossy exchanges of gradients carry along, of all ranks: on rank 0. Called on every rank's thread; restored as
  /// dealt out state is.
  virtual std::vector<nn::NamedValues> compression_state(int) { return {}; }
  /// Broadcasts rank 0's flat tensor to the same tensor of all.
  void broadcast_from_first(int rank, const Tensor& tensor);

  /// A step's score from its ranks' results, losses added in sample order.
  static Score total(const std::vector<StepResults>& results);
  /// Does on a rank what is no part of a step: what it sends there isn't counted.
  void do_uncounted(int rank, const std::function<void()>& work);
  /// Copies of weights on the host take the place of a CPU worker's activations, which no step holds between steps.
  void make_room(int rank);

 private:
  struct EvaluationBlocks {
    const Dataset& dataset;
    int64_t size;  ///< samples of each but the last
  };
  /// A rank's own; `incomplete`: some rank's weren't finished.
  void evaluate_blocks(int rank, const EvaluationBlocks& of, const EvaluationWatch& watch,
                       std::vector<StepResults>& results, std::atomic<bool>& incomplete);
  /// Brings all ranks' results of finished steps to those of this process, where it has rank 0.
  void gather_results(int rank);
  /// The same of evaluated blocks, by number.
  void gather_blocks(int rank, std::vector<StepResults>& results);
  /// Keeps a rank's results of the steps that it is done with; with `all` waits for those under way on its device.
  void keep_results(int rank, bool all);
  /// `assignments`: by rank of the world.
  void form_same_stages_groups(const std::vector<ReplicaAssignment>& assignments);
  /// Ranks of this world with a loss in this step that isn't finite, where some have finite ones; by `results_`.
  std::vector<int> diverged_ranks(const std::vector<StepResults>& of_ranks) const;

  RankTeam team_;
  BatchSplit split_;
  std::vector<ShardRun> shards_;                          ///< that each rank of the world computes; empty: no shards
  int64_t most_at_once_;                                  ///< samples that a device may evaluate at once; 0: any number
  std::vector<Communicator*> same_stages_communicators_;  ///< by rank
  std::vector<std::unique_ptr<Replica>> replicas_;
  std::vector<std::unique_ptr<SharedStatistics>> statistics_;
  std::vector<int64_t> samples_;
  std::vector<CommCounts> reported_;
  std::mutex results_mutex_;
  std::vector<std::deque<StepResults>> results_;  ///< by rank, of steps whose score isn't taken yet
  std::vector<size_t> finite_;                    ///< by own rank: how many of them have been seen to be finite
  int64_t skipped_steps_ = 0;                     ///< as of the last `take_scores(true)`
  std::vector<int64_t> reported_skipped_;
  bool averages_weights_;
  PlantedFault planted_;
  int64_t score_calls_ = 0;
};

}  // namespace dptrain::parallel
