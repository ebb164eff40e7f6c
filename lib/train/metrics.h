#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "device/memory_purpose.h"
#include "parallel/strategy.h"
#include "train/straggler.h"

namespace dptrain::train {

/// A pass over samples and how long it took.
struct Pass {
  parallel::Score score;
  double seconds = 0;

  double samples_per_s() const { return seconds > 0 ? static_cast<double>(score.samples) / seconds : 0; }
};

/// Where an epoch's training seconds went, the mean over the devices; the five add up to Pass::seconds.
struct TimeShares {
  double compute_s = 0;
  double exposed_comm_s = 0;  ///< communication that nothing hid
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
  int64_t graph_steps = 0;  ///< that a GPU ran as CUDA graphs
  double busy = 0;          ///< seconds computing and updating over the epoch's
  double compute_s = 0;     ///< seconds computing, updates aside
  int64_t peak_bytes = 0;
  MemoryCounts memory;  ///< by purpose, at the peak
};

/// Where a rank of the world computes.
struct RankPlace {
  std::string device;
  std::string host;
  int process = 0;  ///< of the job
};

/// What the devices' batch norms shared, and how far apart it left their running statistics; see
/// parallel/shared_statistics.h.
struct BatchNormMetrics {
  parallel::BatchNormMode mode = parallel::BatchNormMode::local;
  std::optional<double> spread;
};

/// What a line of metrics.jsonl says of an epoch.
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
  std::optional<Pass> test;  ///< where there is a validation, of the best epochs so far
  TimeShares time;
  int64_t skipped_steps = 0;  ///< whose gradients overflowed in fp16
  int64_t comm_bytes = 0;     ///< sent, summed over ranks, payload only
  int64_t collectives = 0;
  std::vector<DeviceMetrics> devices;
  std::optional<Straggler> straggler;                 ///< that the other devices waited for, where one clearly was
  std::optional<parallel::StoreUse> store;            ///< of kvstore
  std::optional<parallel::PipelineFigures> pipeline;  ///< of strategies that have one
  std::optional<parallel::Staleness> staleness;       ///< of asynchronous updates
  BatchNormMetrics batch_norm;
  std::string weights_hash;

  /// Of a replica, 1 where there is no pipeline. Rank r has the stages of device r modulo so many.
  size_t pipeline_devices() const {
    return pipeline ? std::max<size_t>(pipeline->stages.size() / static_cast<size_t>(pipeline->stages_per_device), 1)
                    : 1;
  }
  /// The largest peak over the smallest; 1 on one device.
  double memory_imbalance() const;
  /// One line of JSON; docs/metrics.schema.json is its schema.
  std::string json() const;
};

/// Adds what an epoch has cost each rank, what its seconds, which the metrics have, went into, and whom all waited for.
/// `data_wait_s`: of them, as the trainer's thread waited.
void add_costs(EpochMetrics& metrics, const std::vector<parallel::RankCosts>& costs,
               const std::vector<RankPlace>& places, double data_wait_s);

/// The mean loss of each output of a model of text, by its name in metrics.jsonl; nothing for other models.
std::vector<std::pair<std::string, double>> output_losses(const parallel::Score& score);

/// One line of steps.jsonl.
std::string step_json(const parallel::StepNumbers& numbers, const parallel::Score& score);

}  // namespace dptrain::train
