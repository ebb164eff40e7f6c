#pragma once

#include <algorithm>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "config/config_reader.h"
#include "data/augmentation.h"
#include "data/dataset_registry.h"
#include "models/model_registry.h"
#include "models/parameter_groups.h"
#include "optim/schedule.h"
#include "parallel/store_server.h"
#include "parallel/strategy_spec.h"
#include "tensor/precision.h"
#include "train/device_settings.h"
#include "train/initial_weights.h"
#include "train/split_setting.h"
#include "train/strategy_choice.h"
#include "train/training_job.h"
#include "train/validation_settings.h"

namespace dptrain::train {

/// When checkpoints are written, in addition to the one at the end. 0: never.
struct CheckpointSettings {
  int64_t every_epochs = 1;
  int64_t every_steps = 0;
  int64_t keep = 3;  ///< number of checkpoints kept, the newest ones
};

/// The steps of a training run that a trace shows.
struct TracedSteps {
  /// Their numbers. Nothing: `count` steps from the third one of this start on, when memory has been allocated and GPUs
  /// have recorded.
  std::optional<parallel::ShownSteps> numbered = {};
  int64_t count = 10;

  /// The shown steps of a training run that goes on after `step`.
  parallel::ShownSteps after(int64_t step) const {
    if (numbered) return {.first = std::max(step + 1, numbered->first), .last = numbered->last};
    return {.first = step + 3, .last = step + 2 + count};
  }
};

/// A whole experiment, as a configuration describes it. Everything in it is checked, and nothing is opened yet.
struct Experiment {
  std::string name;
  models::ModelSpec model;
  DatasetSpec dataset;
  ops::Augmentations augmentations;  ///< for training samples
  std::vector<DeviceId> devices;
  std::vector<int> threads;  ///< CPU threads by device
  /// The number of devices of each process of the job; one entry if there is no job.
  std::vector<int> devices_of_processes;
  /// The job, if it has several processes. It outlives everything that is made from this.
  const TrainingJob* job = nullptr;
  parallel::StrategySpec strategy;
  /// The choice of `strategy: auto`, once trials have made it.
  std::optional<StrategyChoice> choice;
  SplitSetting split;  ///< how a batch is split among the devices
  int shards = 0;      ///< logical shards of a batch; 0: none
  optim::OptimizerSpec optimizer;
  ops::ConvolutionAlgorithm convolution = ops::ConvolutionAlgorithm::automatic;
  nn::InitializationOptions initialization;
  Precision precision = Precision::fp32;
  parallel::Recompute recompute = parallel::Recompute::automatic;
  parallel::BatchNormMode batch_norm = parallel::BatchNormMode::local;
  bool deterministic = true;  ///< repeated runs give bit-identical weights; CPU workers always do
  bool cuda_graphs = true;    ///< GPUs record steps and replay them
  int64_t batch_size = 0;     ///< samples of one optimizer step over all devices
  int64_t accumulate = 1;     ///< micro-batches per step
  double learning_rate = 0;   ///< the configuration's rate, scaled for the batch size by its lr_rule
  optim::ScheduleSpec schedule;
  std::optional<double> clip_norm;
  double label_smoothing = 0;
  std::optional<double> average_decay;  ///< the decay of `ema`
  std::optional<int64_t> epochs;        ///< exactly one of epochs and steps is set
  std::optional<int64_t> steps;
  uint64_t seed = 0;
  CheckpointSettings checkpoint;
  std::optional<InitialWeights> initial_weights;         ///< replace the weights that `initialization` would draw
  std::vector<std::string> frozen;                       ///< entries of `freeze`, already applied in `model`
  std::vector<models::ParameterGroup> parameter_groups;  ///< already applied in `model`
  int64_t eval_every = 1;                                ///< epochs; 0: never
  ValidationSettings validation;
  bool log_steps = false;
  bool tensorboard = false;
  int steps_in_flight = 2;
  int loader_threads = 1;             ///< threads that load samples, per device
  int64_t memory_limit_bytes = 0;     ///< per CPU worker; 0: none
  double timeout_s = 300;             ///< the longest time without progress of a rank before it counts as failed
  std::optional<LinkSpec> links;      ///< simulated links between the devices, which limit communication
  std::optional<TracedSteps> traced;  ///< shown in trace.json
  std::vector<parallel::InjectedFault> faults;  ///< faults that the training is to suffer
  std::function<void(const Error&)> on_hung;    ///< see RankTeam::Options

  /// Whether each of several processes trains on its own part of the data.
  bool is_partitioned() const;
  /// The options of a server of the key-value store, without the slices, which workers send it.
  parallel::StoreServerOptions store_server() const;
  /// The timeout of every wait for another rank. With several processes it is longer than `timeout_s`, so that the
  /// process that makes no progress reports itself first.
  double wait_timeout_s() const { return devices_of_processes.size() > 1 ? 1.2 * timeout_s + 5 : timeout_s; }
  /// The place where a rank of the world computes.
  RankPlace place(size_t rank) const;
  /// The rank's name, "rank 1 (cpu:1)"; with several processes it includes the host: "rank 1 (cpu:0 on b)".
  std::string rank_name(int rank) const;
  /// The device names of all ranks, such as "cpu:0".
  std::vector<std::string> device_names() const;
};

/// Reads every key of a configuration. `default_name` names the run if the configuration doesn't.
Experiment read_experiment(ConfigReader& config, const std::string& default_name, const ConfigJob& job = {});

}  // namespace dptrain::train
