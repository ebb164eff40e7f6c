#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "optim/adam.h"
#include "optim/lamb.h"
#include "optim/lars.h"
#include "optim/sgd.h"
#include "parallel/compression_options.h"
#include "parallel/fsdp.h"
#include "parallel/gradient_buckets.h"
#include "parallel/local_sgd.h"
#include "parallel/pipeline_strategy.h"
#include "parallel/strategy.h"

namespace dptrain::parallel {

/// The first so many of the real digits.
ImageDatasets digits(int64_t train, int64_t test);

struct StrategyOptions {
  std::string name = "ddp";  ///< or "parallel_criterion": data_parallel with it
  std::string model = "lenet";
  std::optional<models::ModelSpec> net = {};  ///< in place of a model by its name
  int devices = 2;
  int threads = 1;      ///< of each device
  int output_rank = 0;  ///< of data_parallel
  BucketOptions buckets = {};
  bool find_unused = false;          ///< of ddp
  CompressionOptions compress = {};  ///< of ddp; a name as "ddp_bf16" says the method
  LocalSgd::Options local_sgd = {};
  Fsdp::Options fsdp = {};  ///< "fsdp_kept" is without reshard_after_forward
  optim::SgdSettings sgd = {};
  std::optional<optim::AdamSettings> adam = {};  ///< in place of sgd
  std::optional<optim::LarsSettings> lars = {};
  std::optional<optim::LambSettings> lamb = {};
  std::optional<double> clip_norm = {};
  std::optional<double> average_decay = {};
  int64_t micro_batches = 1;
  uint64_t seed = 0;
  int64_t memory_limit_bytes = 0;
  /// In place of CPU workers 0 to devices - 1; with `deterministic`.
  std::vector<DeviceId> list = {};
  double label_smoothing = 0;
  Precision precision = Precision::fp32;
  bool deterministic = true;
  bool records = true;  ///< GPUs' steps
  Recompute recompute = Recompute::automatic;
  PipelineOptions pipeline = {};  ///< of model_parallel and hybrid
  BatchNormMode batch_norm = BatchNormMode::local;
};

/// A strategy with AdamW, whose state and whose decay both show.
StrategyOptions adam_on(const char* name, int devices);
optim::OptimizerSpec optimizer_of(const StrategyOptions& options);
StrategyContext context_of(const StrategyOptions& options);
bool is_pipeline(const StrategyOptions& options);

/// The strategy of these options, over a context that may differ from theirs; "ddp_sharded" is ddp with
/// shard_optimizer, "kvstore_local" and others kvstore of that type or placement.
std::unique_ptr<Strategy> make_strategy(const StrategyOptions& options, const StrategyContext& context);
std::unique_ptr<Strategy> make_strategy(const StrategyOptions& options);

/// Trains for `steps` steps of `batch` samples; returns each step's mean loss: of several processes on that of rank 0.
std::vector<double> train(Strategy& strategy, const Datasets& data, int64_t steps, int64_t batch, double learning_rate,
                          int64_t micro_batches = 1);

}  // namespace dptrain::parallel
