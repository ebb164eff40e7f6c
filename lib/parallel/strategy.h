#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "config/config_reader.h"
#include "data/batch_loader.h"
#include "data/dataset.h"
#include "nn/named_values.h"
#include "parallel/averaging_steps.h"
#include "parallel/compression_options.h"
#include "parallel/injected_fault.h"
#include "parallel/phase_clock.h"
#include "parallel/pipeline_figures.h"
#include "parallel/planted_fault.h"
#include "parallel/rank_team.h"
#include "parallel/replica.h"
#include "parallel/served_store.h"
#include "parallel/shared_statistics.h"
#include "parallel/staleness.h"
#include "parallel/store_links.h"
#include "parallel/training_state.h"
#include "parallel/weight_digests.h"

namespace dptrain::parallel {

/// Sums over the rows of one of the model's outputs, ignored rows left out. Losses are summed in double, in sample
/// order; `correct` counts the rows that are classified correctly.
struct OutputScore {
  double loss_sum = 0;
  int64_t correct = 0;
  int64_t counted = 0;

  double mean_loss() const { return counted > 0 ? loss_sum / static_cast<double>(counted) : 0; }
  double accuracy() const { return counted > 0 ? static_cast<double>(correct) / static_cast<double>(counted) : 0; }
};

/// The result of some samples: one sum for each of the model's outputs.
struct Score {
  std::vector<OutputScore> outputs = {};
  int64_t samples = 0;
  /// For a step: the ranks of the world whose loss isn't finite, if other ranks have a finite one; else empty.
  std::vector<int> diverged_ranks = {};

  /// The sum of the outputs' mean losses: the quantity that training minimizes.
  double mean_loss() const;
  /// The accuracy of the first output, over classes or masked tokens.
  double accuracy() const { return outputs.empty() ? 0 : outputs.front().accuracy(); }
  Score& operator+=(const Score& other);
};

/// Number of samples that are evaluated in one call. It is about the size of a usual training step. Evaluation then
/// takes no more memory than training, and a signal waits for at most one forward pass. It is smaller for text, where
/// every token is predicted, and larger for GPUs, which need more samples to be busy.
int64_t evaluation_block(const Dataset& dataset, DeviceKind kind);

/// A rank's costs since they were last taken.
struct RankCosts {
  PhaseTimes times;
  int64_t samples = 0;
  int64_t graph_steps = 0;    ///< steps whose passes a GPU ran as CUDA graphs
  int64_t skipped_steps = 0;  ///< steps that fp16's loss scale skipped, as of the last time that scores were waited for
  int64_t peak_bytes = 0;
  MemoryCounts memory_at_peak;
  CommCounts communication;

  /// Adds the costs of the time that followed; the larger peak is kept.
  RankCosts& operator+=(const RankCosts& later);
};

/// A step in which a rank found a loss that isn't finite.
struct DivergedStep {
  size_t step = 0;  ///< counted from 0 among the steps whose scores haven't been taken yet
  int rank = 0;     ///< rank of the world
};

/// Callbacks that an evaluation calls between its blocks.
struct EvaluationWatch {
  std::function<bool()> stopped;                   ///< whether the evaluation is to stop; called on any rank's thread
  std::function<void(int64_t samples)> done = {};  ///< about this many samples are done; called on one thread at a time
};

/// A key-value store in which a strategy keeps the weights.
struct StoreUse {
  std::string type;
  std::string placement;  ///< empty if there is only one place
  /// Bytes of weights, optimizer state and everything else in the store: per device, or one entry for host memory.
  std::vector<int64_t> bytes;
  std::optional<ServedStore> served = {};  ///< set if the store is on servers
};

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
  /// Passes the tensors of `state_dict` to `take` one by one, ordered by name. Replicated strategies then never hold
  /// the whole model on the host at once.
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
  /// How this process's gradients have so far been added to those of other processes; empty if they haven't been.
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

/// Everything that a strategy is constructed from.
struct StrategyContext {
  RankTeam::Options team;
  ReplicaSpec replica;
  std::optional<BatchSplit> split = {};  ///< how batches are split among the ranks; evenly by default
  int shards = 0;  ///< logical shards of a batch, at least as many as ranks (shard_runs.h); 0: no shards
  /// The most samples that a device computes at once. Measurements before the training use it; 0: not known.
  int64_t micro_batch_samples = 0;
  BatchNormMode batch_norm = BatchNormMode::local;
  PlantedFault planted = PlantedFault::none;
  std::vector<InjectedFault> faults = {};

  /// This process's links to a key-value store whose servers are in several processes. The strategy takes them over.
  std::shared_ptr<StoreLinks> store_links = {};

  /// The ranks of the world that are in this process, and the world size.
  RankRun own_ranks() const {
    return team.world ? team.world->own_ranks() : RankRun{0, static_cast<int>(team.devices.size())};
  }
  int world_size() const { return team.world ? team.world->shape.ranks() : static_cast<int>(team.devices.size()); }
};

/// A strategy that a configuration names, with its options already read.
struct StrategySpec {
  std::string name;
  std::function<std::unique_ptr<Strategy>(const StrategyContext&)> make;
  int64_t micro_batches = 1;    ///< micro-batches that it cuts a batch into, in addition to `accumulate`
  int parts = 1;                ///< parts that it cuts a micro-batch into
  int stages = 1;               ///< pipeline stages that each part goes through, one after the other
  int stages_per_device = 1;    ///< pipeline stages that one device holds
  bool over_processes = false;  ///< whether its ranks may be in several processes
  /// Whether each of several processes trains on its own part of the data by default.
  bool by_process = false;
  /// For a key-value store on servers: the number of processes that are only servers; 0: every process holds a server.
  std::optional<int> store_servers = {};
  std::optional<int64_t> max_staleness = {};  ///< steps that a process may be ahead of the slowest one
  CompressionOptions::Method compression = CompressionOptions::Method::none;  ///< of gradients
  bool deals_out_weights = false;                ///< no device has all of a model's weights
  bool defers_updates = false;                   ///< a step's update is made during the next step
  bool in_step = true;                           ///< whether all processes train the same step at a time
  std::optional<AveragingSteps> averaging = {};  ///< when replicas that train separately are averaged; see Strategy
  /// For `auto`: the timed steps of each candidate. Until a candidate is chosen, `make` builds the default strategy for
  /// these devices, and evaluations use that one.
  std::optional<int64_t> trial_steps = {};
  /// Throws an error with exit code 78 if it can't train this model. May be empty.
  std::function<void(const nn::Model&)> require_fit = {};

  /// Whether a sample goes through several devices, one stage after the other.
  bool is_pipeline() const { return stages > 1; }
  /// Number of devices that compute one part of a micro-batch: one, or the devices of a pipeline.
  int devices_of_part() const { return stages / stages_per_device; }
};

/// What a strategy's options are read for.
struct StrategyRequest {
  int devices = 1;  ///< of all processes
  int processes = 1;
  int64_t batch_size = 0;  ///< samples per step; 0: not known
  int64_t accumulate = 1;
};

/// Reads the key `strategy` for the requested number of devices. The default is `single` for one device, else `ddp`.
/// Reports a mistake if the number of devices doesn't fit, or if the batch is too small for the micro-batches of a
/// pipeline.
StrategySpec read_strategy(ConfigReader& config, const StrategyRequest& request);

}  // namespace dptrain::parallel
