#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/batch_loader.h"
#include "data/idx_dataset.h"
#include "optim/adam.h"
#include "optim/sgd.h"
#include "parallel/data_parallel.h"
#include "parallel/ddp.h"
#include "parallel/kvstore.h"
#include "parallel/pipeline_strategy.h"
#include "parallel/single.h"
#include "support/source_tree.h"

namespace dptrain::parallel {

/// The first so many of the real digits.
inline ImageDatasets digits(int64_t train, int64_t test) {
  return read_idx_dataset(testing::source_file("datasets/mnist-10k"), {.limit = train, .test_limit = test});
}

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
  optim::SgdSettings sgd = {};
  std::optional<optim::AdamSettings> adam = {};  ///< in place of sgd
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
  Recompute recompute = Recompute::automatic;
  PipelineOptions pipeline = {};  ///< of model_parallel and hybrid
  BatchNormMode batch_norm = BatchNormMode::local;
};

inline optim::OptimizerSpec optimizer_of(const StrategyOptions& options) {
  return {.name = options.adam ? "adam" : "sgd",
          .make = [sgd = options.sgd,
                   adam = options.adam](const optim::FlatWeights& flat) -> std::unique_ptr<optim::Optimizer> {
            if (adam) return std::make_unique<optim::Adam>(flat, *adam);
            return std::make_unique<optim::Sgd>(flat, sgd);
          }};
}

inline StrategyContext context_of(const StrategyOptions& options) {
  StrategyContext context{.team = {.devices = {},
                                   .threads = std::vector<int>(static_cast<size_t>(options.devices), options.threads),
                                   .memory_limit_bytes = options.memory_limit_bytes},
                          .replica = {.model = options.net ? *options.net : models::find_model(options.model),
                                      .input = {.image = {1, 28, 28}, .classes = 10},
                                      .initialization = {.seed = options.seed, .weights = {}},
                                      .optimizer = optimizer_of(options),
                                      .clip_norm = options.clip_norm,
                                      .average_decay = options.average_decay}};
  for (int i = 0; i < options.devices; ++i) context.team.devices.push_back({DeviceKind::cpu, i});
  context.replica.precision = options.precision;
  context.replica.recompute = options.recompute;
  context.batch_norm = options.batch_norm;
  context.replica.label_smoothing = options.label_smoothing;
  if (!options.list.empty()) {
    context.team.devices = options.list;
    context.team.threads.assign(options.list.size(), options.threads);
    context.team.deterministic = options.deterministic;
    context.team.tf32 = options.precision == Precision::tf32;
  }
  return context;
}

inline bool is_pipeline(const StrategyOptions& options) {
  return options.name == "model_parallel" || options.name == "hybrid";
}

inline CompressionOptions compression_of(const StrategyOptions& options) {
  using Method = CompressionOptions::Method;
  CompressionOptions compress = options.compress;
  for (const Method method : {Method::bf16, Method::fp16, Method::powersgd, Method::two_bit})
    if (options.name == std::string("ddp_") + compression_name(method)) compress.method = method;
  return compress;
}

/// The strategy of these options, over a context that may differ from theirs; "ddp_sharded" is ddp with
/// shard_optimizer, "kvstore_local" and others kvstore of that type or placement.
inline std::unique_ptr<Strategy> make_strategy(const StrategyOptions& options, const StrategyContext& context) {
  if (is_pipeline(options)) return PipelineStrategy::make(context, options.pipeline);
  if (options.name == "single") return std::make_unique<Single>(context);
  if (options.name == "data_parallel")
    return std::make_unique<DataParallel>(context, DataParallel::Options{.output_rank = options.output_rank});
  if (options.name == "parallel_criterion")
    return std::make_unique<DataParallel>(context, DataParallel::Options{.criterion = Criterion::parallel});
  if (options.name == "kvstore") return std::make_unique<KvStore>(context, StoreOptions{});
  if (options.name == "kvstore_local")
    return std::make_unique<KvStore>(context, StoreOptions{.type = StoreOptions::Type::local});
  if (options.name == "kvstore_dist_sync")
    return std::make_unique<KvStore>(context, StoreOptions{.type = StoreOptions::Type::dist_sync, .servers = 2});
  if (options.name == "kvstore_dist_async")
    return std::make_unique<KvStore>(context, StoreOptions{.type = StoreOptions::Type::dist_async, .servers = 3});
  if (options.name == "kvstore_dist_device_sync")
    return std::make_unique<KvStore>(context, StoreOptions{.type = StoreOptions::Type::dist_device_sync});
  if (options.name == "kvstore_round_robin")
    return std::make_unique<KvStore>(context, StoreOptions{.placement = Placement::round_robin});
  return std::make_unique<Ddp>(context, Ddp::Options{.buckets = options.buckets,
                                                     .find_unused = options.find_unused,
                                                     .shard_optimizer = options.name == "ddp_sharded",
                                                     .compress = compression_of(options)});
}

inline std::unique_ptr<Strategy> make_strategy(const StrategyOptions& options) {
  return make_strategy(options, context_of(options));
}

/// Trains for `steps` steps of `batch` samples; returns each step's mean loss: of several processes on that of rank 0.
inline std::vector<double> train(Strategy& strategy, const Datasets& data, int64_t steps, int64_t batch,
                                 double learning_rate, int64_t micro_batches = 1) {
  BatchLoader loader(data.train, {.batch_size = batch,
                                  .micro_batches = micro_batches,
                                  .seed = 5,
                                  .devices = strategy.batch_devices(),
                                  .first_part = strategy.first_part(),
                                  .split = strategy.batch_split()});
  loader.start_epoch(1);
  std::vector<double> losses;
  for (int64_t step = 1; step <= steps; ++step) {
    strategy.train_step(loader.next(), {.step = step, .epoch = 1, .learning_rate = learning_rate});
    for (const Score& score : strategy.take_scores(step == steps)) losses.push_back(score.mean_loss());
  }
  return losses;
}

}  // namespace dptrain::parallel
