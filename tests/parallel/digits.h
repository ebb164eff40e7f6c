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
#include "parallel/strategy_context.h"

namespace dptrain::parallel {

/// The first `train` and `test` samples of the real digits.
ImageDatasets digits(int64_t train, int64_t test);

struct StrategyOptions {
  std::string name = "ddp";  ///< or "parallel_criterion": data_parallel with it
  std::string model = "lenet";
  std::optional<models::ModelSpec> net = {};  ///< used instead of the model's name
  int devices = 2;
  int threads = 1;      ///< per device
  int output_rank = 0;  ///< for data_parallel
  BucketOptions buckets = {};
  bool find_unused = false;          ///< for ddp
  CompressionOptions compress = {};  ///< for ddp; a name such as "ddp_bf16" gives the method
  LocalSgd::Options local_sgd = {};
  bool measures_noise = false;  ///< for ddp; fsdp has its own
  Fsdp::Options fsdp = {};      ///< the name "fsdp_kept" turns off reshard_after_forward
  optim::SgdSettings sgd = {};
  std::optional<optim::AdamSettings> adam = {};  ///< used instead of sgd
  std::optional<optim::LarsSettings> lars = {};
  std::optional<optim::LambSettings> lamb = {};
  std::optional<double> clip_norm = {};
  std::optional<double> average_decay = {};
  int64_t micro_batches = 1;
  uint64_t seed = 0;
  int64_t memory_limit_bytes = 0;
  /// Used instead of CPU workers 0 to devices - 1; with `deterministic`.
  std::vector<DeviceId> list = {};
  double label_smoothing = 0;
  Precision precision = Precision::fp32;
  bool deterministic = true;
  bool records = true;  ///< whether steps on GPUs are recorded
  Recompute recompute = Recompute::automatic;
  PipelineOptions pipeline = {};  ///< for model_parallel and hybrid
  BatchNormMode batch_norm = BatchNormMode::local;
};

/// Options of a strategy with AdamW, so that its optimizer state and its weight decay both show.
StrategyOptions adam_on(const char* name, int devices);
optim::OptimizerSpec optimizer_of(const StrategyOptions& options);
StrategyContext context_of(const StrategyOptions& options);
bool is_pipeline(const StrategyOptions& options);

/// Makes the strategy of these options, over a context that may differ from theirs. The name "ddp_sharded" means ddp
/// with shard_optimizer; "kvstore_local" and similar names mean kvstore of that type or placement.
std::unique_ptr<Strategy> make_strategy(const StrategyOptions& options, const StrategyContext& context);
std::unique_ptr<Strategy> make_strategy(const StrategyOptions& options);

/// Trains for `steps` steps of `batch` samples. Returns each step's score; with several processes, rank 0's process has
/// it.
std::vector<Score> scores_of_training(Strategy& strategy, const Datasets& data, int64_t steps, int64_t batch,
                                      double learning_rate, int64_t micro_batches = 1);
/// Trains likewise. Returns each step's mean loss.
std::vector<double> train(Strategy& strategy, const Datasets& data, int64_t steps, int64_t batch, double learning_rate,
                          int64_t micro_batches = 1);

}  // namespace dptrain::parallel
