#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

#include "comm/tree_sum.h"
#include "parallel/ddp.h"
#include "parallel/single.h"
#include "parallel/strategy_config.h"

namespace dptrain::parallel {
namespace {

constexpr int64_t kTrialSteps = 5;
constexpr int64_t kMostTrialSteps = 10'000;

StrategySpec read_single(ConfigReader&, const StrategyRequest& request) {
  return {.name = {},
          .make = [](const StrategyContext& context) { return std::make_unique<Single>(context); },
          .parts = request.devices};
}

struct Row {
  const char* name;
  const char* help;
  int min_devices;
  int max_devices;
  StrategySpec (*read)(ConfigReader&, const StrategyRequest&);
};

/// The table of strategies.
constexpr Row kStrategies[] = {
    {"single", "one device computes the whole batch", 1, 1, read_single},
    {"data_parallel", "one process scatters the batch, gathers the outputs and updates on the first device", 1,
     kMostRanks, read_data_parallel},
    {"ddp", "one rank per device; gradients are summed in buckets while backward runs", 1, kMostRanks, read_ddp},
    {"fsdp", "like ddp, with weights, gradients and optimizer state spread over the devices", 1, kMostRanks, read_fsdp},
    {"kvstore", "one rank per device; a store sums each parameter's gradients and updates the parameter", 1, kMostRanks,
     read_kvstore},
    {"local_sgd",
     "one rank per device, which trains by itself on its part of each batch; weights are averaged every few steps", 1,
     kMostRanks, read_local_sgd},
    {"model_parallel", "the model is cut into stages, one or several per device; micro-batches go through them", 2,
     kMostRanks, read_model_parallel},
    // Its device count depends on its options.
    {"hybrid", "replicas of a model_parallel pipeline, each with its part of the batch", 1, kMostRanks, read_hybrid},
};

/// The choices by name. Each reads its options into `spec`.
std::vector<ConfigChoice> strategy_choices(StrategySpec& spec, const StrategyRequest& request) {
  std::vector<ConfigChoice> choices;
  for (const Row& row : kStrategies)
    choices.push_back({row.name, row.help, [&](ConfigReader& options) { spec = row.read(options, request); }});
  return choices;
}

StrategySpec read_auto(ConfigReader& options, const StrategyRequest& request) {
  StrategySpec candidate;
  options.named_list("candidates", strategy_choices(candidate, request),
                     {.definition = "candidates",
                      .required = false,
                      .help = "the strategies to try, each a name alone or a name with its options; by default "
                              "strategies and bucket sizes that suit the number of devices"});
  const int64_t steps = options.integer("trial_steps", kTrialSteps,
                                        {.min = 1, .max = kMostTrialSteps, .help = "timed steps of each candidate"});
  const auto make = [devices = request.devices](const StrategyContext& context) -> std::unique_ptr<Strategy> {
    if (devices == 1) return std::make_unique<Single>(context);
    return std::make_unique<Ddp>(context, Ddp::Options{});
  };
  return {.name = {}, .make = make, .trial_steps = steps};
}

/// Rejects strategies whose ranks can't be in several processes, if there are several. Returns whether it did.
bool refuse_over_processes(ConfigReader& config, const StrategySpec& spec, const StrategyRequest& request) {
  if (request.processes < 1)
    config.mistake("strategy",
                   fmt::format("expected more processes than the {} of the servers and their scheduler",
                               spec.store_servers.value_or(0) + 1),
                   "none that trains", "start more processes, or use fewer servers");
  if (request.processes < 2 || config.describing() || spec.over_processes) return false;
  config.mistake("strategy", fmt::format("expected a strategy that works across {} processes", request.processes),
                 spec.name,
                 "choose ddp, fsdp, local_sgd, kvstore with a type other than local, model_parallel or hybrid, or "
                 "start only one process");
  return true;
}

void refuse_number_of_devices(ConfigReader& config, const Row& row, int devices) {
  if (devices > row.max_devices)
    config.mistake("strategy", fmt::format("strategy '{}' takes exactly one device", row.name),
                   fmt::format("{}", devices), "choose ddp, or list one device");
  if (devices < row.min_devices && !config.describing())
    config.mistake("strategy", fmt::format("strategy '{}' needs at least {} devices", row.name, row.min_devices),
                   fmt::format("{}", devices), "list more devices, or choose single");
}

}  // namespace

StrategySpec read_strategy(ConfigReader& config, const StrategyRequest& request) {
  const int devices = request.devices;
  StrategySpec spec;
  std::vector<ConfigChoice> choices = strategy_choices(spec, request);
  choices.push_back({"auto", "the fastest of these on the devices, found by trials of a few steps",
                     [&](ConfigReader& options) { spec = read_auto(options, request); }});
  spec.name = config.named("strategy", choices, devices == 1 ? "single" : "ddp", "how the devices share a step");
  config.default_varies("strategy");
  if (refuse_over_processes(config, spec, request)) return spec;
  for (const Row& row : kStrategies)
    if (row.name == spec.name) refuse_number_of_devices(config, row, devices);
  return spec;
}

}  // namespace dptrain::parallel
