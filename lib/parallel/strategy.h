#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "data/batch_loader.h"
#include "data/dataset.h"
#include "nn/named_values.h"
#include "parallel/averaging_steps.h"
#include "parallel/evaluation.h"
#include "parallel/pipeline_figures.h"
#include "parallel/rank_costs.h"
#include "parallel/rank_team.h"
#include "parallel/replica.h"
#include "parallel/score.h"
#include "parallel/staleness.h"
#include "parallel/store_use.h"
#include "parallel/training_state.h"
#include "parallel/weight_digests.h"

namespace dptrain::parallel {

/// A way to share a training step over devices. Every strategy computes what one device would compute with the whole
/// batch, except for batch statistics. A loss is a sum that is divided once, by the samples of the whole step.
/// Gradients are only ever added, in one fixed order.
///
/// Strategies whose ranks don't wait for each other in every step (`averaging()` is set, or `is_in_step()` is false)
/// guarantee this only as far as their ranks wait.
class Strategy {
 public:
  virtual ~Strategy() = default;

  /// The device into which each of this process's parts of a batch is loaded. It is null if this process needs only the
  /// part's labels.
  virtual std::vector<Device*> batch_devices() = 0;
  /// How a batch's samples are shared out among the parts of all processes.
  virtual BatchSplit batch_split() { return BatchSplit::even(static_cast<int>(batch_devices().size())); }
  /// Index of this process's first part among the parts of all processes.
  virtual int first_part() { return first_rank() * static_cast<int>(batch_devices().size()) / ranks(); }
  /// Measures how many samples per second each rank of the world computes, while all ranks compute at once with
  /// `samples` samples each. Leaves all trained values as they are.
  virtual std::vector<double> measure_speeds(const Dataset& dataset, int64_t samples) = 0;
  /// Shares out all later batches among the ranks by `split`.
  virtual void set_split(const BatchSplit& split) = 0;
  /// Runs forward, backward and update on all devices. Some steps, this one included, may still be running when it
  /// returns: only steps whose scores `take_scores` has returned are certainly done. Throws the error that ended this
  /// step or an earlier one.
  virtual void train_step(std::shared_ptr<const Batch> batch, const StepNumbers& numbers) = 0;
  /// Returns the scores of finished steps, oldest first, each once. With `all` it first waits for the steps under way.
  /// If there are several processes, all must make the same calls. Rank 0's process then gets scores over all ranks,
  /// several steps at a time; the other processes get scores of their own ranks.
  virtual std::vector<Score> take_scores(bool all) = 0;
  /// Evaluates the whole data set with the weights and running statistics that `state_dict` returns. Fixed blocks are
  /// dealt to the devices, so the result is the same for any number of devices. Returns nothing if `watch` stopped it.
  /// If there are several processes, only rank 0's gets the score.
  virtual std::optional<Score> evaluate(const Dataset& dataset, const EvaluationWatch& watch) = 0;
  /// Returns the whole model's parameters and running statistics: the values that evaluations use and hashes cover. If
  /// there are several processes, all must call it; rank 0's gets the whole model, the others get what their own
  /// devices hold.
  virtual std::vector<nn::NamedValues> state_dict() = 0;
  /// Passes the tensors of `state_dict` to `take` one by one, ordered by name. Except for pipelines,
  /// the whole model is never on the host at once.
  virtual void for_each_state(const std::function<void(const nn::NamedValues&)>& take) = 0;
  /// Returns everything that a checkpoint holds. If there are several processes, only rank 0's gets it. The caller has
  /// waited for all steps under way.
  virtual TrainingState training_state() = 0;
  /// Continues from `state`; called before the first step. The tensors have the names and shapes that `training_state`
  /// returns. A part that is empty, or that this run doesn't keep, is left unchanged.
  virtual void restore(const TrainingState& state) = 0;

  /// Returns digests of the weights that each rank of this process keeps between steps. Ranks on the same kind of
  /// device, in all processes, have equal digests by name once the steps under way have been waited for. Blocks, but no
  /// process waits for another.
  virtual std::vector<WeightDigests> weight_digests() = 0;

  /// Number of ranks in this process; they are numbered from 0.
  virtual int ranks() const = 0;
  /// Number of ranks in all processes, and the world rank of this process's rank 0.
  virtual int world_size() const = 0;
  virtual int first_rank() const = 0;
  virtual const Device& device(int rank) const = 0;
  /// Returns a rank's costs since the last call.
  virtual RankCosts take_costs(int rank) = 0;
  /// How gradients have so far been added up between this process's devices, and between processes (see CommWays). A
  /// field is empty if no sum has gone that way.
  virtual CommWays sum_ways() = 0;
  /// The key-value store, if the strategy has one.
  virtual std::optional<StoreUse> store() const { return std::nullopt; }
  /// Whether all processes train the same step at a time. If not, they meet in `take_scores(true)`.
  virtual bool is_in_step() const { return true; }
  /// Whether a step's update is made during the next step.
  virtual bool defers_updates() const { return false; }
  /// When replicas that train separately are averaged; nothing if replicas are equal after every step.
  virtual std::optional<AveragingSteps> averaging() const { return std::nullopt; }
  /// Averages the replicas now, as after the last step of a period. No step may be under way.
  virtual void average() {}
  /// Blocks until the given steps are done, except for an update that a step leaves to the next one.
  virtual void wait_for_steps() {}
  /// For processes that aren't in step: blocks while this process is too far ahead of the others. `signal`, if not 0,
  /// asks the run to stop. Returns false if this process, like all others, is to stop before `step`.
  virtual bool may_begin(int64_t /*step*/, int /*signal*/) { return true; }
  /// For processes that aren't in step: the first step with a loss on this process's ranks that isn't finite; nothing
  /// if there is none so far.
  virtual std::optional<DivergedStep> diverged_step() { return std::nullopt; }
  /// Returns how stale the weights were from which gradients were computed since the last call; nothing if weights are
  /// never stale. If there are several processes, rank 0's calls it, between steps.
  virtual std::optional<Staleness> take_staleness() { return std::nullopt; }
  /// Returns how steps went through the pipeline since the last call; nothing if there is no pipeline. If there are
  /// several processes, all must call it; rank 0's gets the times of all stages.
  virtual std::optional<PipelineFigures> take_pipeline_figures() { return std::nullopt; }
  /// Records timelines of these steps from now on, if RankTeam::Options::has_timelines is set. Neither this member nor
  /// those below may be called while a step is under way.
  virtual void show_steps(const ShownSteps& steps) = 0;
  /// Returns each rank's timeline of the recorded steps since the last call, for the ranks of this process.
  virtual std::vector<std::vector<TimelineRow>> take_timelines() = 0;
  /// Returns how far the devices' running statistics differ (see shared_statistics.h); nothing if they can't. The
  /// caller has waited for all steps under way. An evaluation copies the first device's running statistics to all
  /// devices, so call this before it.
  virtual std::optional<double> statistics_spread() { return std::nullopt; }
};

}  // namespace dptrain::parallel
