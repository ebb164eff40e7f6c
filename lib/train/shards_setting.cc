#include "train/shards_setting.h"

#include <fmt/format.h>

#include <bit>

namespace dptrain::train {

int read_shards(ConfigReader& config, const Experiment& experiment) {
  constexpr int64_t kMostShards = 1024;
  const int64_t shards = config.integer(
      "shards", 0,
      {.min = 0,
       .max = kMostShards,
       .help =
           "logical shards of a batch, a power of two: gradients and batch statistics are computed for each, by one "
           "thread, and added by a fixed tree, so that any devices that divide them end in the same bits; 0: off"});
  if (config.describing() || shards == 0) return 0;
  const auto refuse = [&](const std::string& expected, const std::string& got, const std::string& advice) {
    config.mistake("shards", expected, got, advice);
    return 0;
  };
  int64_t devices = 0;
  for (const int of_process : experiment.devices_of_processes) devices += of_process;
  if (!std::has_single_bit(static_cast<uint64_t>(shards)))
    return refuse("expected a power of two", fmt::format("{}", shards), "write for instance shards: 8");
  if (shards % devices != 0)
    return refuse(fmt::format("expected a number that the {} devices divide", devices), fmt::format("{}", shards),
                  "list as many devices as a power of two up to that number");
  if (experiment.split.measured || experiment.split.weights)
    return refuse("every device computes as many shards, expected no split", "a split", "leave one of them out");
  if (experiment.batch_norm != parallel::BatchNormMode::local)
    return refuse("batch norms see one shard each, expected batch_norm: local",
                  std::string(parallel::batch_norm_mode_name(experiment.batch_norm)), "leave one of them out");
  if (experiment.strategy.name == "model_parallel" || experiment.strategy.name == "hybrid")
    return refuse(fmt::format("strategy '{}' has no shards", experiment.strategy.name), fmt::format("{}", shards),
                  "choose single, data_parallel, ddp or kvstore");
  for (const auto& [option, value] : config.resolved_options("strategy"))
    if (option == "compress" && value != "none")
      return refuse("gradients are compressed by device, expected compress: none", value, "leave one of them out");
  if (experiment.precision == Precision::fp16)
    return refuse("shards are computed in fp32, tf32 or bf16", "precision: fp16", "write one of these");
  return static_cast<int>(shards);
}

}  // namespace dptrain::train
