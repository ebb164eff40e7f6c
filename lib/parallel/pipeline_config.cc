#include "parallel/pipeline_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "parallel/pipeline_strategy.h"

namespace dptrain::parallel {
namespace {

constexpr int64_t kMostMicroBatches = 1 << 24;
/// By default, so that filling and emptying the pipeline is a third of a step or less.
constexpr int64_t kMicroBatchesOfStage = 2;

CutRequest read_cut(ConfigReader& options, int stages) {
  CutRequest request{.where = options.where("stages")};
  if (options.word("stages", "auto", true)) return request;
  request.entries =
      options.texts("stages", {},
                    "an entry a stage of the pipeline: how many of the model's stages it holds, or the name of the one "
                    "that it begins with; auto: by measured time and memory");
  if (options.describing()) return request;
  const auto entries = static_cast<int>(request.entries.size());
  if (entries == stages) return request;
  options.mistake("stages", fmt::format("expected an entry for each of the {} stages of the pipeline", stages),
                  fmt::format("{}", entries), "list as many entries as devices, or write stages: auto");
  request.entries.clear();
  return request;
}

/// At least as many as stages: with fewer some would never work at once.
int64_t read_micro_batches(ConfigReader& options, int stages, const StrategyRequest& request, int replicas) {
  const auto written = options.optional_integer(
      "micro_batches", {.min = 1,
                        .max = kMostMicroBatches,
                        .help = "that go through the pipeline one behind the other, of each accumulation; by default "
                                "two a stage, or fewer where the batch has fewer samples"});
  if (options.describing()) return stages;
  const int64_t shares = request.accumulate * replicas, most = std::max<int64_t>(request.batch_size / shares, 1);
  const int64_t chosen = std::clamp<int64_t>(std::min(kMicroBatchesOfStage * stages, most), stages, kMostMicroBatches);
  const int64_t count = written.value_or(chosen);
  if (!written) options.resolve("micro_batches", fmt::format("{}", count), "default");
  if (count < stages)
    options.mistake("micro_batches",
                    fmt::format("a pipeline of {} stages needs at least as many micro-batches", stages),
                    fmt::format("{}", count), fmt::format("write micro_batches: {}", kMicroBatchesOfStage * stages));
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
  const std::string name =
      options.one_of("schedule", names, names.front(),
                     "1f1b: a micro-batch goes back as soon as it can, so that few are held; zero_bubble: that, with "
                     "gradients of weights in passes of their own, so that devices wait less; gpipe: all go forward, "
                     "then all back");
  return kPipelineSchedules[std::ranges::find(names, name) - names.begin()];
}

/// `stages`: of each of `replicas` pipelines.
StrategySpec read_pipeline(ConfigReader& options, const StrategyRequest& request, int stages, int replicas) {
  PipelineOptions pipeline{.cut = read_cut(options, stages), .replicas = replicas};
  pipeline.micro_batches = read_micro_batches(options, stages, request, replicas);
  pipeline.schedule = read_schedule(options);
  return {.name = {},
          .make = [pipeline](const StrategyContext& context) { return PipelineStrategy::make(context, pipeline); },
          .micro_batches = pipeline.micro_batches,
          .parts = replicas,
          .stages = stages,
          .require_fit = [cut = pipeline.cut,
                          stages](const nn::Model& model) { require_cut(cut, unit_names(model), stages); }};
}

}  // namespace

StrategySpec read_model_parallel(ConfigReader& options, const StrategyRequest& request) {
  return read_pipeline(options, request, std::max(request.devices, 2), 1);
}

StrategySpec read_hybrid(ConfigReader& options, const StrategyRequest& request) {
  const auto stages = static_cast<int>(options.integer(
      "model_parallel", 2, {.min = 2, .max = 2048, .help = "devices of each replica: the stages of its pipeline"}));
  if (!options.describing() && (request.devices % stages != 0 || request.devices < 2 * stages))
    options.mistake("model_parallel",
                    fmt::format("replicas of {} devices each need a multiple of {} devices, at least {}", stages,
                                stages, 2 * stages),
                    fmt::format("{}", request.devices), "list other devices, or cut the model into other numbers");
  return read_pipeline(options, request, stages, std::max(request.devices / stages, 2));
}

}  // namespace dptrain::parallel
