#pragma once

#include <atomic>
#include <deque>
#include <mutex>

#include "parallel/comm_buffer.h"
#include "parallel/shared_statistics.h"
#include "parallel/steps_under_way.h"
#include "parallel/strategy.h"
#include "parallel/strategy_context.h"

namespace dptrain::parallel {

/// The part of a replica that a device holds, and the replica's duties there.
struct ReplicaAssignment {
  ReplicaDuties duties = {};
  nn::StageRanges stages = {{}};
  /// Places the replica's model if `duties.places` is false. May be empty. `rank`: of this process.
  std::function<void(Replica&, int rank)> place = {};
};

/// The common base of strategies that keep a replica, or a part of one, on every device. It has the team of ranks,
/// evaluation and costs.
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
  /// For strategies whose replicas may be split over devices. `assignment_of` takes a rank of the world. `form_groups`
  /// is called before replicas are made.
  ReplicatedStrategy(const StrategyContext& context,
                     const std::function<ReplicaAssignment(int world_rank)>& assignment_of,
                     const std::function<void(RankTeam&)>& form_groups = {});

  RankTeam& team() { return team_; }
  const BatchSplit& split() const { return split_; }
  Replica& replica(int rank) { return *replicas_[static_cast<size_t>(rank)]; }
  /// A rank's part of each micro-batch. With logical shards: the parts of its first shard, then of its second, and so
  /// on.
  StepParts parts_of(const Batch& batch, int rank);
  /// The totals that a step's losses are divided by.
  StepTotals totals_of(const Batch& batch) const;
  /// Whether a planted fault makes the strategy leave out the last sum over ranks.
  bool leaves_last_sum_out() const { return planted_ == PlantedFault::bucket_left_out; }
  /// The device into which each part of a micro-batch is loaded, rank by rank.
  std::vector<Device*> part_devices();
  /// A rank's end of the communicator over the ranks that hold the same part of the model.
  Communicator& same_stages_communicator(int rank) { return *same_stages_communicators_[static_cast<size_t>(rank)]; }
  /// A rank's shared batch-norm statistics. A step calls them at its beginning and after its forward passes.
  SharedStatistics& statistics(int rank) { return *statistics_[static_cast<size_t>(rank)]; }
  /// A step on one rank.
  struct RankStep {
    int rank;
    Replica& replica;
    const Batch& batch;
    StepParts parts;  ///< the rank's own
    int64_t number;   ///< from 1
    int64_t samples() const;
  };
  /// Has every rank make a step on its own parts of a batch. `give` gives the rank's device the work. The replica's
  /// step is begun before `give` is called and ended after it.
  void make_step(StepsUnderWay& steps, std::shared_ptr<const Batch> batch, const StepNumbers& numbers,
                 std::function<void(const RankStep&)> give);
  /// The totals that a rank divides its losses by.
  virtual StepTotals totals_on(const RankStep& step) const { return totals_of(step.batch); }
  /// Ends a step on a rank. All of the step's device work has been given; publishing the results was the last of it.
  void end_step(int rank);
  /// Returns each rank's own running statistics, by rank of the world, on the process that has rank 0. Blocks.
  std::vector<RunningValues> running_values();
  /// Number of samples that are evaluated in one call. With a memory limit, at most as many as a device trains on at
  /// once: that many are known to fit.
  int64_t evaluation_samples(const Dataset& dataset) const;
  /// Which rows of a text are evaluated. With a memory limit, only the rows that training predicts.
  PredictedRows evaluated_rows() const { return most_at_once_ > 0 ? PredictedRows::masked : PredictedRows::all; }
  void count_samples(int rank, int64_t samples) { samples_[static_cast<size_t>(rank)] += samples; }
  /// Counts the samples of every rank's own parts.
  void count_samples(const Batch& batch);

  /// If evaluation uses other weights than training, such as a moving average, swaps them in on every replica. The next
  /// call swaps the trained weights back. Called on every rank's thread.
  virtual void swap_average(int rank);
  /// Copies rank 0's weights and running statistics to every replica, as far as they can differ between steps. If every
  /// rank makes the same updates, only the running statistics differ. Called on every rank's thread.
  virtual void share_weights(int rank) { broadcast_from_first(rank, replica(rank).model().running_states()); }
  /// If a step's update is made during the next step, finishes that update. Called on every rank's thread before any
  /// weights are read.
  virtual void finish_updates(int) {}
  /// Whether, between steps, a rank's weights must equal those of all ranks on the same kind of device bit for bit.
  virtual bool has_comparable_weights(int) { return true; }
  /// The digests of such weights. Called on every rank's thread.
  virtual WeightDigests digests_on(int rank) { return digests_of(replica(rank).model()); }
  /// For processes that aren't in step: blocks until all of them are done with their steps.
  virtual void meet() {}
  /// For processes that aren't in step: gives all replicas the same weights once all steps are done. Called on every
  /// rank's thread.
  virtual void settle(int) {}
  /// Reads weights that no single replica holds, in the form that nn::state_dict takes; the values arrive on rank 0.
  /// Called on every rank's thread; each rank reads all of them in the same order.
  virtual nn::ReadParameter read_weights(int) { return {}; }
  /// Returns, on rank 0, the optimizer state that no single replica holds, with the names that the first replica would
  /// use. This member and `restore_dealt_out` are called on every rank's thread.
  virtual std::vector<nn::NamedValues> dealt_out_state(int) { return {}; }
  virtual void restore_dealt_out(int, const TrainingState&) {}
  /// Returns, on rank 0, what lossy exchanges of gradients carry along, for all ranks. Called on every rank's thread;
  /// `restore_dealt_out` restores it.
  virtual std::vector<nn::NamedValues> compression_state(int) { return {}; }
  /// Broadcasts rank 0's flat tensor into the same tensor of all ranks.
  void broadcast_from_first(int rank, const Tensor& tensor);

  /// A step's score from the results of its ranks; losses are added in sample order.
  static Score total(const std::vector<StepResults>& results);
  /// Does work on a rank that isn't part of a step. The bytes that it sends aren't counted.
  void do_uncounted(int rank, const std::function<void()>& work);
  /// Frees cached memory of a CPU worker, so that host copies of the weights fit in the space of its activations. No
  /// step holds activations between steps.
  void make_room(int rank);

 private:
  struct EvaluationBlocks {
    const Dataset& dataset;
    int64_t size;  ///< samples of each block except the last
  };
  /// Evaluates a rank's own blocks. Sets `incomplete` if they weren't finished.
  void evaluate_blocks(int rank, const EvaluationBlocks& of, const EvaluationWatch& watch,
                       std::vector<StepResults>& results, std::atomic<bool>& incomplete);
  /// Brings all ranks' results of finished steps to the process that has rank 0.
  void gather_results(int rank);
  /// Brings the results of evaluated blocks to the process that has rank 0, ordered by block number.
  void gather_blocks(int rank, std::vector<StepResults>& results);
  /// Keeps the results of the steps that a rank has finished. With `all` it first waits for those under way on the
  /// rank's device.
  void keep_results(int rank, bool all);
  /// `assignments`: by rank of the world.
  void form_same_stages_groups(const std::vector<ReplicaAssignment>& assignments);
  /// The ranks of the world whose loss in this step isn't finite, if other ranks have a finite one; else empty.
  /// `of_ranks` is in the order of `results_`.
  std::vector<int> diverged_ranks(const std::vector<StepResults>& of_ranks) const;

  RankTeam team_;
  BatchSplit split_;
  std::vector<ShardRun> shards_;  ///< the shards that each rank of the world computes; empty: no shards
  int64_t most_at_once_;          ///< samples that a device may evaluate at once; 0: no limit
  std::vector<Communicator*> same_stages_communicators_;  ///< by rank
  std::vector<std::unique_ptr<Replica>> replicas_;
  std::vector<std::unique_ptr<SharedStatistics>> statistics_;
  std::vector<int64_t> samples_;
  std::vector<CommCounts> reported_;
  std::mutex results_mutex_;
  std::vector<std::deque<StepResults>> results_;  ///< by rank: results of steps whose score hasn't been taken yet
  std::vector<size_t> finite_;  ///< by own rank: how many of its `results_` have been checked and are finite
  int64_t skipped_steps_ = 0;   ///< as of the last call that waited for scores
  std::vector<int64_t> reported_skipped_;
  bool averages_weights_;
  PlantedFault planted_;
  int64_t score_calls_ = 0;
};

}  // namespace dptrain::parallel
