#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "config/config_reader.h"
#include "data/batch_loader.h"
#include "data/dataset.h"
#include "nn/model.h"
#include "parallel/phase_clock.h"
#include "parallel/rank_team.h"
#include "parallel/replica.h"

namespace dptrain::parallel {

/// Sums over samples: of losses in double, in sample order; of samples classified rightly.
struct Score {
  double loss_sum = 0;
  int64_t correct = 0;
  int64_t samples = 0;

  double mean_loss() const { return samples > 0 ? loss_sum / static_cast<double>(samples) : 0; }
  double accuracy() const { return samples > 0 ? static_cast<double>(correct) / static_cast<double>(samples) : 0; }
  Score& operator+=(const Score& other);
};

/// Samples that are evaluated in one call. As many as a usual training step has, so that evaluation takes no more
/// memory than training, and a signal waits for no more than a step's forward pass.
inline constexpr int64_t kEvaluationBlock = 64;
/// The same of GPUs, which need more of them to have enough to do.
inline constexpr int64_t kGpuEvaluationBlock = 512;

/// What a rank has cost since it was last asked.
struct RankCosts {
  PhaseTimes times;
  int64_t samples = 0;
  int64_t skipped_steps = 0;  ///< that fp16's loss scale skipped, as far as scores were waited for
  int64_t peak_bytes = 0;
  MemoryCounts memory_at_peak;
  CommCounts communication;
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
  virtual std::optional<Score> evaluate(const ImageDataset& dataset, const std::function<bool()>& stopped) = 0;
  /// What checkpoints and hashes hold.
  virtual std::vector<nn::NamedValues> state_dict() = 0;

  virtual int ranks() const = 0;
  virtual const Device& device(int rank) const = 0;
  /// Costs of a rank since the last call.
  virtual RankCosts take_costs(int rank) = 0;
};

/// Everything a strategy is made from.
struct StrategyContext {
  RankTeam::Options team;
  ReplicaSpec replica;
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
