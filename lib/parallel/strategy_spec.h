#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "config/config_reader.h"
#include "nn/model.h"
#include "parallel/averaging_steps.h"
#include "parallel/compression_options.h"
#include "parallel/shared_statistics.h"
#include "parallel/strategy.h"
#include "parallel/strategy_context.h"
#include "tensor/precision.h"

namespace dptrain::parallel {

/// What a configuration asks of a training, as far as some strategies can't do it.
struct TrainingSettings {
  bool has_gpus = false;
  std::optional<double> clip_norm = {};
  std::string optimizer = {};
  bool measures_layers = false;  ///< the optimizer needs the norm of each layer's gradients
  Precision precision = Precision::fp32;
  std::optional<double> average_decay = {};
  BatchNormMode batch_norm = BatchNormMode::local;
  int shards = 0;
  std::optional<std::string> split = {};  ///< set if devices get unequal parts: "auto" or "weights"
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
  bool measures_noise = false;                   ///< of gradients; see gradient_noise.h
  bool in_step = true;                           ///< whether all processes train the same step at a time
  std::optional<AveragingSteps> averaging = {};  ///< when replicas that train separately are averaged; see Strategy
  /// For `auto`: the timed steps of each candidate. Until a candidate is chosen, `make` builds the default strategy for
  /// these devices, and evaluations use that one.
  std::optional<int64_t> trial_steps = {};
  /// Throws an error with exit code 78 if it can't train this model. May be empty.
  std::function<void(const nn::Model&)> require_fit = {};
  /// Reports settings that the strategy can't support, at the keys of the top level. May be empty.
  std::function<void(ConfigReader& config, const TrainingSettings& settings)> refuse_settings = {};

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
