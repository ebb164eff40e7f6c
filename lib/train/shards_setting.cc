#include "train/shards_setting.h"

#include <fmt/format.h>

#include <algorithm>

#include "parallel/shard_runs.h"

namespace dptrain::train {
namespace {

bool leaves_one_out(int64_t shards, int64_t devices) {
  return std::ranges::any_of(parallel::shard_runs(static_cast<int>(shards), static_cast<int>(devices)),
                             [](const parallel::ShardRun& run) { return run.size() == 0; });
}

/// The default number of shards: the same for each device, and about eight in all.
int64_t shards_that_suit(int64_t devices) {
  int64_t shards = devices;
  while (shards < 8) shards *= 2;
  return shards;
}

}  // namespace

int read_shards(ConfigReader& config, const Experiment& experiment) {
  constexpr int64_t kMostShards = 1024;
  const int64_t shards = config.integer(
      "shards", 0,
      {.min = 0,
       .max = kMostShards,
       .help =
           "logical shards of a batch: the gradients and batch statistics of each are computed by one thread and added "
           "by a fixed tree, so that any number of devices that divides them gives bit-identical weights; 0: off"});
  if (config.describing() || shards == 0) return 0;
  const auto refuse = [&](const std::string& expected, const std::string& got, const std::string& advice) {
    config.mistake("shards", expected, got, advice);
    return 0;
  };
  int64_t devices = 0;
  for (const int of_process : experiment.devices_of_processes) devices += of_process;
  if (shards % devices != 0)
    return refuse(fmt::format("expected a multiple of {}, the number of devices", devices), fmt::format("{}", shards),
                  fmt::format("write for instance shards: {}", shards_that_suit(devices)));
  if (leaves_one_out(shards, devices))
    return refuse(fmt::format("expected a subtree of the sum over shards for each of the {} devices", devices),
                  fmt::format("{}, which leave some without a shard", shards),
                  fmt::format("write for instance shards: {}", shards_that_suit(devices)));
  if (experiment.split.measured || experiment.split.weights)
    return refuse("the tree of sums over shards decides which device computes which shard, expected no split",
                  "a split", "leave one of them out");
  if (experiment.batch_norm == parallel::BatchNormMode::sync)
    return refuse("with shards a batch norm sees only one shard, expected batch_norm: local, average or first", "sync",
                  "leave one of them out");
  if (experiment.strategy.is_pipeline() || experiment.strategy.deals_out_weights)
    return refuse(fmt::format("strategy '{}' doesn't support shards", experiment.strategy.name),
                  fmt::format("{}", shards), "choose single, data_parallel, ddp or kvstore");
  const auto compression = experiment.strategy.compression;
  if (compression != parallel::CompressionOptions::Method::none)
    return refuse("gradients are compressed per device instead of per shard, expected compress: none",
                  parallel::compression_name(compression), "leave one of them out");
  return static_cast<int>(shards);
}

}  // namespace dptrain::train
