#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "device/memory_purpose.h"
#include "parallel/pipeline_figures.h"
#include "parallel/rank_costs.h"
#include "parallel/score.h"
#include "parallel/shared_statistics.h"
#include "parallel/staleness.h"
#include "parallel/step_numbers.h"
#include "parallel/store_use.h"
#include "train/straggler.h"

namespace dptrain::train {

/// A pass over samples and its duration.
struct Pass {
  parallel::Score score;
  double seconds = 0;

  double samples_per_s() const { return seconds > 0 ? static_cast<double>(score.samples) / seconds : 0; }
};

/// The parts of an epoch's training seconds, as means over the devices; all five add up to Pass::seconds.
struct TimeShares {
  double compute_s = 0;
  double exposed_comm_s = 0;  ///< communication that no computing hid
  double data_wait_s = 0;
  double optimizer_s = 0;
  double other_s = 0;
};

struct DeviceMetrics {
  std::string device;
  std::string host;
  int process = 0;  ///< of the job
  int rank = 0;
  int64_t samples = 0;
  int64_t graph_steps = 0;  ///< steps that a GPU ran as CUDA graphs
  double busy = 0;          ///< the share of the epoch's seconds spent computing and updating
  double compute_s = 0;     ///< seconds of computing, without updates
  int64_t peak_bytes = 0;
  MemoryCounts memory;  ///< by purpose, when the device held most
};

/// The place where a rank of the world computes.
struct RankPlace {
  std::string device;
  std::string host;
  int process = 0;  ///< of the job
};

/// What the devices' batch norms shared, and how far apart their running statistics are; see
/// parallel/shared_statistics.h.
struct BatchNormMetrics {
  parallel::BatchNormMode mode = parallel::BatchNormMode::local;
  std::optional<double> spread;
};

/// An epoch as a line of metrics.jsonl reports it.
struct EpochMetrics {
  std::string run;
  std::string strategy;
  int64_t epoch = 0;
  int64_t step = 0;  ///< optimizer steps since the run began
  int world_size = 1;
  int64_t global_batch = 0;
  double learning_rate = 0;
  Pass train;
  std::optional<Pass> validation;
  std::optional<Pass> test;  ///< with a validation, only of epochs that are the best so far
  TimeShares time;
  int64_t skipped_steps = 0;  ///< steps whose gradients overflowed in fp16
  int64_t comm_bytes = 0;     ///< sent, summed over ranks, payload only
  int64_t collectives = 0;
  std::vector<DeviceMetrics> devices;
  std::optional<Straggler> straggler;                 ///< set if the other devices clearly waited for one
  std::optional<parallel::StoreUse> store;            ///< of the strategy kvstore
  std::optional<parallel::PipelineFigures> pipeline;  ///< of strategies that have a pipeline
  std::optional<parallel::Staleness> staleness;       ///< of asynchronous updates
  BatchNormMetrics batch_norm;
  std::string weights_hash;

  /// The number of devices in a pipeline; 1 if there is no pipeline. Rank r has the stages of device r modulo this
  /// number.
  size_t pipeline_devices() const {
    return pipeline ? std::max<size_t>(pipeline->stages.size() / static_cast<size_t>(pipeline->stages_per_device), 1)
                    : 1;
  }
  /// The largest peak over the smallest; 1 on one device.
  double memory_imbalance() const;
  /// One line of JSON; docs/metrics.schema.json is its schema.
  std::string json() const;
};

/// Adds to an epoch's metrics the costs of each rank, the parts of its seconds, and the straggler. The metrics must
/// have the seconds already. `data_wait_s`: the seconds for which the trainer's thread waited for data.
void add_costs(EpochMetrics& metrics, const std::vector<parallel::RankCosts>& costs,
               const std::vector<RankPlace>& places, double data_wait_s);

/// The mean loss of each output of a text model, by its name in metrics.jsonl; empty for other models.
std::vector<std::pair<std::string, double>> output_losses(const parallel::Score& score);

/// One line of steps.jsonl.
std::string step_json(const parallel::StepNumbers& numbers, const parallel::Score& score);

}  // namespace dptrain::train
