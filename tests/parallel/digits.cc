#include "parallel/digits.h"

#include <algorithm>
#include <iterator>

#include "data/batch_loader.h"
#include "data/idx_dataset.h"
#include "parallel/data_parallel.h"
#include "parallel/ddp.h"
#include "parallel/fsdp.h"
#include "parallel/kvstore.h"
#include "parallel/local_sgd.h"
#include "parallel/pipeline_strategy.h"
#include "parallel/single.h"
#include "support/source_tree.h"

namespace dptrain::parallel {
namespace {

CompressionOptions compression_of(const StrategyOptions& options) {
  using Method = CompressionOptions::Method;
  CompressionOptions compress = options.compress;
  for (const Method method : {Method::bf16, Method::fp16, Method::powersgd, Method::two_bit})
    if (options.name == std::string("ddp_") + compression_name(method)) compress.method = method;
  return compress;
}

}  // namespace

ImageDatasets digits(int64_t train, int64_t test) {
  return read_idx_dataset(testing::source_file("datasets/mnist-10k"), {.limit = train, .test_limit = test});
}

StrategyOptions adam_on(const char* name, int devices) {
  return {.name = name, .devices = devices, .adam = optim::AdamSettings{.weight_decay = 0.1, .decoupled = true}};
}

optim::OptimizerSpec optimizer_of(const StrategyOptions& options) {
  return {.name = options.adam   ? "adam"
                  : options.lars ? "lars"
                  : options.lamb ? "lamb"
                                 : "sgd",
          .make = [options](const optim::FlatWeights& flat) -> std::unique_ptr<optim::Optimizer> {
            if (options.adam) return std::make_unique<optim::Adam>(flat, *options.adam);
            if (options.lars) return std::make_unique<optim::Lars>(flat, *options.lars);
            if (options.lamb) return std::make_unique<optim::Lamb>(flat, *options.lamb);
            return std::make_unique<optim::Sgd>(flat, options.sgd);
          },
          .measures = options.lars || options.lamb};
}

StrategyContext context_of(const StrategyOptions& options) {
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
    context.team.records = options.records;
    context.team.tf32 = options.precision == Precision::tf32;
  }
  return context;
}

bool is_pipeline(const StrategyOptions& options) {
  return options.name == "model_parallel" || options.name == "hybrid";
}

std::unique_ptr<Strategy> make_strategy(const StrategyOptions& options, const StrategyContext& context) {
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
  if (options.name == "kvstore_dist_sync_on_nine")  // LeNet has eight keys
    return std::make_unique<KvStore>(
        context,
        StoreOptions{.type = StoreOptions::Type::dist_sync, .placement = Placement::round_robin, .servers = 9});
  if (options.name == "kvstore_dist_async")
    return std::make_unique<KvStore>(context, StoreOptions{.type = StoreOptions::Type::dist_async, .servers = 3});
  if (options.name == "kvstore_dist_device_sync")
    return std::make_unique<KvStore>(context, StoreOptions{.type = StoreOptions::Type::dist_device_sync});
  if (options.name == "kvstore_round_robin")
    return std::make_unique<KvStore>(context, StoreOptions{.placement = Placement::round_robin});
  if (options.name == "fsdp") return std::make_unique<Fsdp>(context, options.fsdp);
  if (options.name == "fsdp_kept") {
    Fsdp::Options kept = options.fsdp;
    kept.reshard_after_forward = false;
    return std::make_unique<Fsdp>(context, kept);
  }
  if (options.name == "local_sgd") return std::make_unique<LocalSgd>(context, options.local_sgd);
  return std::make_unique<Ddp>(context, Ddp::Options{.buckets = options.buckets,
                                                     .find_unused = options.find_unused,
                                                     .shard_optimizer = options.name == "ddp_sharded",
                                                     .compress = compression_of(options),
                                                     .measures_noise = options.measures_noise});
}

std::unique_ptr<Strategy> make_strategy(const StrategyOptions& options) {
  return make_strategy(options, context_of(options));
}

std::vector<Score> scores_of_training(Strategy& strategy, const Datasets& data, int64_t steps, int64_t batch,
                                      double learning_rate, int64_t micro_batches) {
  BatchLoader loader(data.train, {.batch_size = batch,
                                  .micro_batches = micro_batches,
                                  .seed = 5,
                                  .devices = strategy.batch_devices(),
                                  .first_part = strategy.first_part(),
                                  .split = strategy.batch_split()});
  loader.start_epoch(1);
  std::vector<Score> scores;
  for (int64_t step = 1; step <= steps; ++step) {
    strategy.train_step(loader.next(), {.step = step, .epoch = 1, .learning_rate = learning_rate});
    std::ranges::copy(strategy.take_scores(step == steps), std::back_inserter(scores));
  }
  return scores;
}

std::vector<double> train(Strategy& strategy, const Datasets& data, int64_t steps, int64_t batch, double learning_rate,
                          int64_t micro_batches) {
  std::vector<double> losses;
  for (const Score& score : scores_of_training(strategy, data, steps, batch, learning_rate, micro_batches))
    losses.push_back(score.mean_loss());
  return losses;
}

}  // namespace dptrain::parallel
