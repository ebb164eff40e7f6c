#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "parallel/pipeline_strategy.h"
#include "parallel/strategy_config.h"

namespace dptrain::parallel {
namespace {

constexpr int64_t kMostMicroBatches = 1 << 24;
constexpr int64_t kMostStagesOfDevice = 1024;
/// The default number of micro-batches per device: filling and emptying the pipeline then takes at most a third of a
/// step.
constexpr int64_t kMicroBatchesOfDevice = 2;

CutRequest read_cut(ConfigReader& options, int devices, int stages_per_device) {
  const int stages = devices * stages_per_device;
  CutRequest request{.where = options.where("stages")};
  if (options.word("stages", "auto", true)) return request;
  request.entries = options.texts("stages", {},
                                  "one entry per pipeline stage, in the model's order: how many of the model's stages "
                                  "it holds, or the name of its first one; auto: by measured time and memory");
  if (options.describing()) return request;
  const auto entries = static_cast<int>(request.entries.size());
  if (entries == stages) return request;
  options.mistake(
      "stages",
      fmt::format("expected an entry for each of the {} stages of the pipeline{}", stages,
                  stages_per_device > 1 ? fmt::format(", {} on each of {} devices", stages_per_device, devices) : ""),
      fmt::format("{}", entries), "list one entry per stage, or write stages: auto");
  request.entries.clear();
  return request;
}

/// At least as many as devices; with fewer, some devices could never work at the same time.
int64_t read_micro_batches(ConfigReader& options, int devices, const StrategyRequest& request, int replicas) {
  const auto written = options.optional_integer(
      "micro_batches",
      {.min = 1,
       .max = kMostMicroBatches,
       .help = "micro-batches that go through the pipeline one behind the other, in each accumulation: at least one "
               "per device; two per device by default, or fewer if the batch has fewer samples"});
  if (options.describing()) return devices;
  const int64_t shares = request.accumulate * replicas, most = std::max<int64_t>(request.batch_size / shares, 1);
  const int64_t chosen =
      std::clamp<int64_t>(std::min(kMicroBatchesOfDevice * devices, most), devices, kMostMicroBatches);
  const int64_t count = written.value_or(chosen);
  if (!written) options.resolve("micro_batches", fmt::format("{}", count), "default");
  if (count < devices)
    options.mistake("micro_batches",
                    fmt::format("a pipeline of {} devices needs at least as many micro-batches", devices),
                    fmt::format("{}", count), fmt::format("write micro_batches: {}", kMicroBatchesOfDevice * devices));
  else if (request.batch_size > 0 && request.batch_size < count * shares)
    options.mistake("micro_batches",
                    fmt::format("a batch of {} has at most {} micro-batches{}{}", request.batch_size, most,
                                request.accumulate > 1 ? fmt::format(" in {} accumulations", request.accumulate) : "",
                                replicas > 1 ? fmt::format(" for {} replicas", replicas) : ""),
                    fmt::format("{}", count), "use a larger batch_size or fewer micro-batches");
  return count;
}

PipelineSchedule read_schedule(ConfigReader& options) {
  std::vector<std::string> names;
  for (const PipelineSchedule schedule : kPipelineSchedules) names.emplace_back(schedule_name(schedule));
  const std::string name = options.one_of(
      "schedule", names, names.front(),
      "1f1b: a micro-batch goes back as soon as it can, so that few are held; zero_bubble: 1f1b with the gradients of "
      "weights in passes of their own, so that devices wait less and hold more; interleaved: 1f1b with several stages "
      "per device, so that devices wait less, hold more and send more; gpipe: all go forward, then all go back");
  return kPipelineSchedules[std::ranges::find(names, name) - names.begin()];
}

/// Only `interleaved` has several stages per device.
int read_stages_per_device(ConfigReader& options, PipelineSchedule schedule) {
  const auto written = options.optional_integer(
      "stages_per_device", {.min = 1,
                            .max = kMostStagesOfDevice,
                            .help = "pipeline stages on each device: two or more under interleaved (2 by default), one "
                                    "otherwise; stage s is on device s modulo the number of devices"});
  const bool several = schedule == PipelineSchedule::interleaved;
  const auto count = static_cast<int>(written.value_or(several ? kInterleavedStages : 1));
  if (options.describing()) return count;
  if (!written && several) options.resolve("stages_per_device", fmt::format("{}", count), "default");
  if (several == (count > 1)) return count;
  if (several)
    options.mistake("stages_per_device", "schedule: interleaved needs at least two stages per device", "1",
                    "write stages_per_device: 2, or schedule: 1f1b");
  else
    options.mistake("stages_per_device", fmt::format("schedule: {} has one stage per device", schedule_name(schedule)),
                    fmt::format("{}", count), "write schedule: interleaved, or stages_per_device: 1");
  return count;
}

/// Two replicas of two devices.
constexpr int kFewestHybridDevices = 4;

/// `devices`: in each of `replicas` pipelines.
StrategySpec read_pipeline(ConfigReader& options, const StrategyRequest& request, int devices, int replicas) {
  const char* const name = replicas > 1 ? "hybrid" : "model_parallel";
  const auto refuse_split = [name](ConfigReader& config, const TrainingSettings& settings) {
    if (settings.split)
      config.mistake("split", fmt::format("{} sends whole batches through its stages", name), *settings.split,
                     "write split: even, or stages: auto");
  };
  PipelineOptions pipeline{.schedule = read_schedule(options), .replicas = replicas};
  pipeline.stages_per_device = read_stages_per_device(options, pipeline.schedule);
  const int stages = devices * pipeline.stages_per_device;
  pipeline.cut = read_cut(options, devices, pipeline.stages_per_device);
  pipeline.micro_batches = read_micro_batches(options, devices, request, replicas);
  return {.name = {},
          .make = [pipeline](const StrategyContext& context) { return PipelineStrategy::make(context, pipeline); },
          .micro_batches = pipeline.micro_batches,
          .parts = replicas,
          .stages = stages,
          .stages_per_device = pipeline.stages_per_device,
          .over_processes = true,
          .require_fit = [cut = pipeline.cut, stages,
                          devices](const nn::Model& model) { require_cut(cut, unit_names(model), stages, devices); },
          .refuse_settings = refuse_split};
}

}  // namespace

StrategySpec read_model_parallel(ConfigReader& options, const StrategyRequest& request) {
  return read_pipeline(options, request, std::max(request.devices, 2), 1);
}

StrategySpec read_hybrid(ConfigReader& options, const StrategyRequest& request) {
  const auto devices = static_cast<int>(
      options.integer("model_parallel", 2, {.min = 2, .max = 2048, .help = "devices of each replica's pipeline"}));
  if (!options.describing() && (request.devices % devices != 0 || request.devices < 2 * devices))
    options.mistake("model_parallel",
                    fmt::format("replicas of {} devices each need a multiple of {} devices, at least {}", devices,
                                devices, 2 * devices),
                    fmt::format("{}", request.devices),
                    request.devices < kFewestHybridDevices
                        ? fmt::format("list {} devices", kFewestHybridDevices)
                        : "list another number of devices, or change model_parallel");
  return read_pipeline(options, request, devices, std::max(request.devices / devices, 2));
}

}  // namespace dptrain::parallel
