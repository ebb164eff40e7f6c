#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

#include "parallel/local_sgd.h"
#include "parallel/strategy_config.h"

namespace dptrain::parallel {
namespace {

constexpr double kMostOuterRate = 100;

/// Refuses what needs replicas to train together.
void refuse_training_together(ConfigReader& config, const TrainingSettings& settings) {
  const auto refuse = [&](const char* key, const std::string& what, const std::string& got, const std::string& advice) {
    config.mistake(key, fmt::format("devices of local_sgd share no {}, expected none", what), got,
                   advice + ", or choose ddp");
  };
  if (settings.precision == Precision::fp16) refuse("precision", "loss scale", "fp16", "use bf16");
  if (settings.average_decay)
    refuse("ema", "weights between two averagings", fmt::format("{}", *settings.average_decay), "leave it out");
  if (settings.shards > 0) refuse("shards", "sum of gradients", fmt::format("{}", settings.shards), "leave them out");
  if (settings.batch_norm != BatchNormMode::local)
    config.mistake("batch_norm",
                   "devices of local_sgd communicate only when they average, which averages running statistics, too; "
                   "expected local",
                   batch_norm_mode_name(settings.batch_norm), "write batch_norm: local, or choose ddp");
}

Combination read_combination(ConfigReader& options, const CompressionOptions& compress) {
  const std::vector<std::string> names = {"mean", "adasum"};
  const std::string name = options.one_of(
      "combine", names, names[0],
      "how weights become one again: mean, weighted by samples; or adasum, which adds the devices' movements as far as "
      "they are orthogonal and averages them as far as they agree");
  if (name == names[0]) return Combination::mean;
  if (compress.method != CompressionOptions::Method::none)
    options.mistake("combine", "expected mean with compress, as adasum needs each device's whole movement", name,
                    "write combine: mean, or leave compress out");
  return Combination::adasum;
}

}  // namespace

StrategySpec read_local_sgd(ConfigReader& options, const StrategyRequest& request) {
  LocalSgd::Options read;
  AveragingSteps& averaging = read.averaging;
  averaging.period = options.integer(
      "period", averaging.period,
      {.min = 1, .max = kMostSteps, .help = "steps that each device trains by itself between two averagings"});
  averaging.warmup_steps = options.integer(
      "warmup_steps", averaging.warmup_steps,
      {.min = 0, .max = kMostSteps, .help = "first steps of a run; the weights are averaged after each of them"});
  read.compress = read_compression(options, request.devices);
  read.combination = read_combination(options, read.compress);
  // Optimizer state isn't compressed and would be most of the bytes sent. With `compress` the default is `own`.
  const std::vector<std::string> states = {"averaged", "own"};
  const bool compresses = read.compress.method != CompressionOptions::Method::none;
  read.averages_state =
      options.one_of("optimizer_state", states, states[compresses ? 1 : 0],
                     "optimizer state: averaged with the weights, or each device's own (the default with compress)") ==
      states[0];
  options.default_varies("optimizer_state");
  OuterStep& outer = read.outer;
  outer.learning_rate = options.number(
      "outer_learning_rate", outer.learning_rate,
      {.min = 0,
       .max = kMostOuterRate,
       .exclusive_min = true,
       .help = "how far an averaging moves the weights from the last averaging towards the new mean; 1: all the way"});
  outer.momentum = options.number("outer_momentum", outer.momentum,
                                  {.min = 0,
                                   .max = 1,
                                   .exclusive_max = true,
                                   .help = "Nesterov momentum of these moves; 0.9 with a rate of 0.7 is DiLoCo"});
  return {.name = {},
          .make = [read](const StrategyContext& context) { return std::make_unique<LocalSgd>(context, read); },
          .parts = request.devices,
          .over_processes = true,
          .averaging = averaging,
          .refuse_settings = refuse_training_together};
}

}  // namespace dptrain::parallel
