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
#include "parallel/strategy.h"
#include "tensor/precision.h"
#include "train/device_settings.h"
#include "train/initial_weights.h"
#include "train/split_setting.h"
#include "train/strategy_choice.h"
#include "train/training_job.h"
#include "train/validation_settings.h"

namespace dptrain::train {

/// When checkpoints are written, beside the one at the end. 0: never.
struct CheckpointSettings {
  int64_t every_epochs = 1;
  int64_t every_steps = 0;
  int64_t keep = 3;  ///< the newest so many
};

/// Steps of a training to be shown.
struct TracedSteps {
  /// By their numbers; nothing: `count` of them, from the third on that is trained now, by which memory has been taken
  /// and GPUs have recorded.
  std::optional<parallel::ShownSteps> numbered = {};
  int64_t count = 10;

  /// Those that are trained after this one.
  parallel::ShownSteps after(int64_t step) const {
    if (numbered) return {.first = std::max(step + 1, numbered->first), .last = numbered->last};
    return {.first = step + 3, .last = step + 2 + count};
  }
};

/// A whole experiment, as a configuration describes it: everything checked, nothing opened yet.
struct Experiment {
  std::string name;
  models::ModelSpec model;
  DatasetSpec dataset;
  ops::Augmentations augmentations;  ///< of training samples
  std::vector<DeviceId> devices;
  std::vector<int> threads;               ///< CPU threads by device
  std::vector<int> devices_of_processes;  ///< how many each process of the job has; one number where it is alone
  /// The job, where it has several processes; outlives what is made from this.
  const TrainingJob* job = nullptr;
  parallel::StrategySpec strategy;
  /// Of `strategy: auto`, once trials have made it.
  std::optional<StrategyChoice> choice;
  SplitSetting split;  ///< of a batch among the devices
  int shards = 0;      ///< logical ones of a batch; 0: none
  optim::OptimizerSpec optimizer;
  ops::ConvolutionAlgorithm convolution = ops::ConvolutionAlgorithm::automatic;
  nn::InitializationOptions initialization;
  Precision precision = Precision::fp32;
  parallel::Recompute recompute = parallel::Recompute::automatic;
  parallel::BatchNormMode batch_norm = parallel::BatchNormMode::local;
  bool deterministic = true;  ///< runs end in the same bits; CPU workers always do
  bool cuda_graphs = true;    ///< GPUs record steps, and replay them
  int64_t batch_size = 0;     ///< samples of one optimizer step over all devices
  int64_t accumulate = 1;     ///< micro-batches of a step
  double learning_rate = 0;   ///< as the configuration gives it, times what its lr_rule makes of the batch size
  optim::ScheduleSpec schedule;
  std::optional<double> clip_norm;
  double label_smoothing = 0;
  std::optional<double> average_decay;  ///< of `ema`
  std::optional<int64_t> epochs;        ///< one of epochs and steps is given
  std::optional<int64_t> steps;
  uint64_t seed = 0;
  CheckpointSettings checkpoint;
  std::optional<InitialWeights> initial_weights;         ///< in place of what `initialization` draws
  std::vector<std::string> frozen;                       ///< entries of `freeze`, which `model` builds by
  std::vector<models::ParameterGroup> parameter_groups;  ///< which `model` builds by
  int64_t eval_every = 1;                                ///< epochs; 0: never
  ValidationSettings validation;
  bool log_steps = false;
  bool tensorboard = false;
  int steps_in_flight = 2;
  int loader_threads = 1;                       ///< that load the samples of each device
  int64_t memory_limit_bytes = 0;               ///< of each CPU worker; 0: none
  double timeout_s = 300;                       ///< that a rank may make no progress for, and be waited for
  std::optional<LinkSpec> links;                ///< between the devices, which communication is held to
  std::optional<TracedSteps> traced;            ///< that trace.json shows
  std::vector<parallel::InjectedFault> faults;  ///< that it is to suffer
  std::function<void(const Error&)> on_hung;    ///< as RankTeam::Options has it

  /// Whether each of several processes trains on a part of the data of its own.
  bool is_partitioned() const;
  /// What a server of its key-value store goes by, but for the slices, which workers tell it.
  parallel::StoreServerOptions store_server() const;
  /// Of every wait for another rank. Of several processes each tells of itself first that it makes no progress.
  double wait_timeout_s() const { return devices_of_processes.size() > 1 ? 1.2 * timeout_s + 5 : timeout_s; }
  /// Where a rank of the world computes.
  RankPlace place(size_t rank) const;
  /// "rank 1 (cpu:1)"; with its host, where there are several processes: "rank 1 (cpu:0 on b)".
  std::string rank_name(int rank) const;
  /// The devices of all ranks, "cpu:0".
  std::vector<std::string> device_names() const;
};

/// Reads every key of a configuration. `default_name` names the run where the configuration doesn't.
Experiment read_experiment(ConfigReader& config, const std::string& default_name, const ConfigJob& job = {});

}  // namespace dptrain::train
