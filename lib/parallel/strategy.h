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
#include "parallel/phase_clock.h"
#include "parallel/rank_team.h"
#include "parallel/replica.h"
#include "parallel/shared_statistics.h"
#include "parallel/training_state.h"

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
  int64_t skipped_steps = 0;  ///< that fp16's loss scale skipped, as far as scores were waited for
  int64_t peak_bytes = 0;
  MemoryCounts memory_at_peak;
  CommCounts communication;

  /// Of the time after as well; the larger peak counts.
  RankCosts& operator+=(const RankCosts& later);
};

/// A way to share a training step over devices. All strategies compute what one device with the whole batch computes,
/// batch statistics apart: a loss is a sum that is divided once, by the samples of the whole step; gradients are only
/// ever added, in one fixed order.
class Strategy {
 public:
  virtual ~Strategy() = default;

  /// The device of each part that a batch is loaded in.
  virtual std::vector<Device*> batch_devices() = 0;
  /// Forward, backward and update on all devices. CPU workers are done when it returns; GPUs may have some steps under
  /// way, and only what `take_scores` has given is certain to have been done.
  virtual void train_step(const Batch& batch, const StepNumbers& numbers) = 0;
  /// The scores of steps that are done, oldest first, each once. With `all` it waits for the steps under way.
  virtual std::vector<Score> take_scores(bool all) = 0;
  /// The whole data set by the first device's weights and running statistics, in fixed blocks that are
  /// dealt to the devices: the same numbers on any device count. Between blocks `stopped` is asked; nothing where it
  /// said yes.
  virtual std::optional<Score> evaluate(const Dataset& dataset, const std::function<bool()>& stopped) = 0;
  /// Parameters and running statistics: what evaluations go by and hashes are of.
  virtual std::vector<nn::NamedValues> state_dict() = 0;
  /// What a checkpoint holds. Steps under way are to have been waited for.
  virtual TrainingState training_state() = 0;
  /// Goes on from there, before the first step. Tensors have the names and shapes that `training_state` gives; an empty
  /// part, or one that this training doesn't keep, is left as it is.
  virtual void restore(const TrainingState& state) = 0;

  virtual int ranks() const = 0;
  virtual const Device& device(int rank) const = 0;
  /// Costs of a rank since the last call.
  virtual RankCosts take_costs(int rank) = 0;
  /// How far apart the devices' running statistics are, see shared_statistics.h; nothing where they can't be. Steps
  /// under way are to have been waited for; evaluation gives all devices those of the first.
  virtual std::optional<double> statistics_spread() { return std::nullopt; }
};

/// Everything a strategy is made from.
struct StrategyContext {
  RankTeam::Options team;
  ReplicaSpec replica;
  BatchNormMode batch_norm = BatchNormMode::local;
};

/// A strategy that a configuration names, its options read.
struct StrategySpec {
  std::string name;
  std::function<std::unique_ptr<Strategy>(const StrategyContext&)> make;
};

/// Reads the key `strategy` for this many devices: by default `single` on one, else `ddp`. A number of devices that
/// doesn't fit is a mistake.
StrategySpec read_strategy(ConfigReader& config, int devices);

}  // namespace dptrain::parallel
