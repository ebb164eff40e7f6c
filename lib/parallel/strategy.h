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

/// Sums over the rows of one of the model's outputs that aren't ignored: of losses in double, in sample order; of rows
/// classified rightly.
struct OutputScore {
  double loss_sum = 0;
  int64_t correct = 0;
  int64_t counted = 0;

  double mean_loss() const { return counted > 0 ? loss_sum / static_cast<double>(counted) : 0; }
  double accuracy() const { return counted > 0 ? static_cast<double>(correct) / static_cast<double>(counted) : 0; }
};

/// What samples have shown.
struct Score {
  std::vector<OutputScore> outputs = {};
  int64_t samples = 0;
  /// Of a step: ranks of the world whose losses aren't finite, where those of others are.
  std::vector<int> diverged_ranks = {};

  /// The sum of the outputs' means: what is minimized.
  double mean_loss() const;
  /// Of the first output: of classes, or of masked tokens.
  double accuracy() const { return outputs.empty() ? 0 : outputs.front().accuracy(); }
  Score& operator+=(const Score& other);
};

/// Samples that are evaluated in one call. As many as a usual training step has, so that evaluation takes no more
/// memory than training, and a signal waits for no more than a step's forward pass. Of text, whose every token is
/// predicted, fewer; of GPUs, which need more of them to have enough to do, more.
int64_t evaluation_block(const Dataset& dataset, DeviceKind kind);

/// What a rank has cost since it was last asked.
struct RankCosts {
  PhaseTimes times;
  int64_t samples = 0;
  int64_t graph_steps = 0;    ///< whose passes a GPU ran as CUDA graphs
  int64_t skipped_steps = 0;  ///< that fp16's loss scale skipped, as far as scores were waited for
  int64_t peak_bytes = 0;
  MemoryCounts memory_at_peak;
  CommCounts communication;

  /// Of the time after as well; the larger peak counts.
  RankCosts& operator+=(const RankCosts& later);
};

/// A step that a rank has found a loss in that isn't finite.
struct DivergedStep {
  size_t step = 0;  ///< of those whose scores weren't taken yet, counted from 0
  int rank = 0;     ///< of the world
};

/// What is asked, and told, between the blocks of an evaluation.
struct EvaluationWatch {
  std::function<bool()> stopped;                   ///< whether it is to end; any rank's thread asks
  std::function<void(int64_t samples)> done = {};  ///< about so many are; one thread says so, while nobody else acts
};

/// A key-value store that a strategy keeps weights in.
struct StoreUse {
  std::string type;
  std::string placement;  ///< empty where there is one place
  /// Of weights, optimizer state and whatever else it holds: on each device, or in host memory alone.
  std::vector<int64_t> bytes;
  std::optional<ServedStore> served = {};  ///< where it is on servers
};

/// A way to share a training step over devices. All strategies compute what one device with the whole batch computes,
/// batch statistics apart: a loss is a sum that is divided once, by the samples of the whole step; gradients are only
/// ever added, in one fixed order. Those whose ranks don't wait for each other in every step (`averaging`, and not
/// `is_in_step`) do so only as far as they wait.
class Strategy {
 public:
  virtual ~Strategy() = default;

  /// The device of each part that a batch is loaded in, null where this process needs a part's labels alone; and how
  /// its samples are shared out among all parts.
  virtual std::vector<Device*> batch_devices() = 0;
  virtual BatchSplit batch_split() { return BatchSplit::even(static_cast<int>(batch_devices().size())); }
  /// Which of all parts the first one is, where other processes have others.
  virtual int first_part() { return first_rank() * static_cast<int>(batch_devices().size()) / ranks(); }
  /// Samples a second that each rank of the world computes, all of them at once, of so many samples each. Changes
  /// nothing that is trained.
  virtual std::vector<double> measure_speeds(const Dataset& dataset, int64_t samples) = 0;
  /// Shares out the batches after this among the ranks like that.
  virtual void set_split(const BatchSplit& split) = 0;
  /// Forward, backward and update on all devices. Some steps may be under way when it returns, this one among them;
  /// only what `take_scores` has given is certain to have been done. Throws what ended this step or one before.
  virtual void train_step(std::shared_ptr<const Batch> batch, const StepNumbers& numbers) = 0;
  /// The scores of steps that are done, oldest first, each once. With `all` it waits for the steps under way. Of
  /// several processes all call it alike; that of rank 0 gets scores over all ranks, now and then, the others those of
  /// their own ranks.
  virtual std::vector<Score> take_scores(bool all) = 0;
  /// The whole data set by the weights and running statistics that `state_dict` gives, in fixed blocks that are
  /// dealt to the devices: the same numbers on any device count. Nothing where it was stopped. Of several processes
  /// that of rank 0 gets it.
  virtual std::optional<Score> evaluate(const Dataset& dataset, const EvaluationWatch& watch) = 0;
  /// The whole model's parameters and running statistics, which evaluations go by and hashes are of. Of several
  /// processes all call it alike; that of rank 0 gets it, the others what their own devices have of a model.
  virtual std::vector<nn::NamedValues> state_dict() = 0;
  /// The same tensor by tensor in the order of their names: of replicas without all of it on the host at once.
  virtual void for_each_state(const std::function<void(const nn::NamedValues&)>& take) = 0;
  /// What a checkpoint holds; of several processes that of rank 0 gets it. Steps under way are to have been waited for.
  virtual TrainingState training_state() = 0;
  /// Goes on from there, before the first step. Tensors have the names and shapes that `training_state` gives; an empty
  /// part, or one that this training doesn't keep, is left as it is.
  virtual void restore(const TrainingState& state) = 0;

  /// Of the weights that each rank of this process keeps from step to step: those of ranks of one kind of device, of
  /// all processes, have the same bits by name once steps under way have been waited for. Blocks; no process waits for
  /// another.
  virtual std::vector<WeightDigests> weight_digests() = 0;

  /// Of this process, numbered from 0.
  virtual int ranks() const = 0;
  /// Of all processes, and which of them is this one's rank 0.
  virtual int world_size() const = 0;
  virtual int first_rank() const = 0;
  virtual const Device& device(int rank) const = 0;
  /// Costs of a rank since the last call.
  virtual RankCosts take_costs(int rank) = 0;
  /// By which way this process's gradients are added to those of others, as far as it trained; empty where they aren't.
  virtual CommWays sum_ways() = 0;
  /// The store, where there is one.
  virtual std::optional<StoreUse> store() const { return std::nullopt; }
  /// Whether all processes train the same step at a time. Where not, they meet in `take_scores(true)`.
  virtual bool is_in_step() const { return true; }
  /// Whether a step's update is made in the course of the next one.
  virtual bool defers_updates() const { return false; }
  /// When replicas that train by themselves become their mean; nothing where they are the same after every step.
  virtual std::optional<AveragingSteps> averaging() const { return std::nullopt; }
  /// Makes them their mean now, as after the last step of a period. No step is under way.
  virtual void average() {}
  /// Blocks until the steps that were given are done, up to the update that one leaves for the next.
  virtual void wait_for_steps() {}
  /// Of processes that aren't in step: blocks while this one is too far ahead of the others. False where it is to end
  /// before this step, as all others do: `signal`, not 0, asks for that.
  virtual bool may_begin(int64_t /*step*/, int /*signal*/) { return true; }
  /// Of processes that aren't in step: the first step with a loss on this one's ranks that isn't finite; nothing where
  /// there is none so far.
  virtual std::optional<DivergedStep> diverged_step() { return std::nullopt; }
  /// How stale the weights were that gradients came from, since the last call; nothing where they never are. Of several
  /// processes that of rank 0 calls it, between steps.
  virtual std::optional<Staleness> take_staleness() { return std::nullopt; }
  /// How steps went through a pipeline since the last call; nothing of strategies that have none. Of several processes
  /// all call it alike; that of rank 0 gets what all stages have spent.
  virtual std::optional<PipelineFigures> take_pipeline_figures() { return std::nullopt; }
  /// From now on these steps are shown, where the strategy was made to show some: see RankTeam::Options::has_timelines.
  /// No step is under way, here and below.
  virtual void show_steps(const ShownSteps& steps) = 0;
  /// What each rank of this process was at in the steps that have been shown since the last call.
  virtual std::vector<std::vector<TimelineRow>> take_timelines() = 0;
  /// How far apart the devices' running statistics are, see shared_statistics.h; nothing where they can't be. Steps
  /// under way are to have been waited for; evaluation gives all devices those of the first.
  virtual std::optional<double> statistics_spread() { return std::nullopt; }
};

/// Everything a strategy is made from.
struct StrategyContext {
  RankTeam::Options team;
  ReplicaSpec replica;
  std::optional<BatchSplit> split = {};  ///< of batches among the ranks; by default even
  int shards = 0;                        ///< logical ones of a batch, some for every rank (shard_runs.h); 0: none
  /// The most samples that a device computes at once, which measurements before the training go by; 0: not known.
  int64_t micro_batch_samples = 0;
  BatchNormMode batch_norm = BatchNormMode::local;
  PlantedFault planted = PlantedFault::none;
  std::vector<InjectedFault> faults = {};

  /// Of a key-value store whose servers are in several processes: this one's links; taken by whoever is made.
  std::shared_ptr<StoreLinks> store_links = {};

  /// Which ranks of the world this process has, and how many there are.
  RankRun own_ranks() const {
    return team.world ? team.world->own_ranks() : RankRun{0, static_cast<int>(team.devices.size())};
  }
  int world_size() const { return team.world ? team.world->shape.ranks() : static_cast<int>(team.devices.size()); }
};

/// A strategy that a configuration names, its options read.
struct StrategySpec {
  std::string name;
  std::function<std::unique_ptr<Strategy>(const StrategyContext&)> make;
  int64_t micro_batches = 1;    ///< that it wants a batch to be cut into, beside those of `accumulate`
  int parts = 1;                ///< that it cuts a micro-batch into
  int stages = 1;               ///< of a pipeline, that each of these goes through one behind the other
  int stages_per_device = 1;    ///< how many of them a device has
  bool over_processes = false;  ///< whether its ranks may be in several processes
  /// Whether each of several processes trains on a part of the data of its own, where nothing else is asked for.
  bool by_process = false;
  /// Of a key-value store on servers: how many processes of several are servers alone; 0: each holds one.
  std::optional<int> store_servers = {};
  std::optional<int64_t> max_staleness = {};                                  ///< of its workers, in steps
  CompressionOptions::Method compression = CompressionOptions::Method::none;  ///< of gradients
  bool deals_out_weights = false;                                             ///< no device has all of a model's
  bool defers_updates = false;                   ///< a step's update is made in the course of the next one
  bool in_step = true;                           ///< whether all processes train the same step at a time
  std::optional<AveragingSteps> averaging = {};  ///< of replicas that train by themselves; see Strategy
  /// Of `auto`: timed steps of each candidate. Until one is chosen it makes what is the default on these devices, which
  /// evaluations go by.
  std::optional<int64_t> trial_steps = {};
  /// Throws 78 where it can't train such a model. May be empty.
  std::function<void(const nn::Model&)> require_fit = {};

  /// Whether a sample goes through several devices, one stage after the other.
  bool is_pipeline() const { return stages > 1; }
  /// That have a part of a micro-batch together: one, or those of a pipeline.
  int devices_of_part() const { return stages / stages_per_device; }
};

/// What a strategy is read for.
struct StrategyRequest {
  int devices = 1;  ///< of all processes
  int processes = 1;
  int64_t batch_size = 0;  ///< of a step; 0: not known
  int64_t accumulate = 1;
};

/// Reads the key `strategy` for so many devices: by default `single` on one, else `ddp`. A number of devices that
/// doesn't fit, and a batch that is too small for the micro-batches of a pipeline, are mistakes.
StrategySpec read_strategy(ConfigReader& config, const StrategyRequest& request);

}  // namespace dptrain::parallel
