#include <fmt/format.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "optim/optimizer.h"
#include "parallel/kvstore.h"
#include "parallel/strategy_config.h"

namespace dptrain::parallel {
namespace {

constexpr int kMostServers = 1024;

/// Refuses what asynchronous processes can't support, because each updates the weights when it is ready.
void refuse_out_of_step(ConfigReader& config, const TrainingSettings& settings) {
  const auto refuse = [&](const char* key, const std::string& got, const std::string& advice) {
    config.mistake(key, "kvstore of type dist_async waits for no other process, expected none", got,
                   advice + ", or choose type: dist_sync");
  };
  if (settings.clip_norm) refuse("clip_norm", "a norm of all gradients", "leave it out");
  if (settings.measures_layers)
    config.mistake("optimizer",
                   fmt::format("kvstore of type dist_async never has the norm of a layer's gradients, expected {}",
                               optim::kUnmeasured),
                   settings.optimizer, "choose another optimizer, or choose type: dist_sync");
  if (settings.precision == Precision::fp16) refuse("precision", "a loss scale of all processes", "use bf16");
  if (settings.batch_norm != BatchNormMode::local)
    refuse("batch_norm", std::string(batch_norm_mode_name(settings.batch_norm)), "write batch_norm: local");
  if (settings.shards > 0) refuse("shards", fmt::format("{}", settings.shards), "leave it out");
}

}  // namespace

StrategySpec read_kvstore(ConfigReader& options, const StrategyRequest& request) {
  StoreOptions store;
  using Type = StoreOptions::Type;
  std::vector<std::string> types;
  const std::vector<std::string> placements = {"balanced", "round_robin"};
  for (const Type type : {Type::device, Type::local, Type::dist_sync, Type::dist_device_sync, Type::dist_async})
    types.emplace_back(store_type_name(type));
  const std::string type = options.one_of(
      "type", types, "device",
      "where keys are summed and updated. device: on the devices; local: in host memory; dist_sync, dist_device_sync: "
      "on servers over all processes, each of which first adds up its devices' gradients, in host memory or on the "
      "devices; dist_async: on servers, without waiting for the other processes");
  for (const Type other : {Type::local, Type::dist_sync, Type::dist_device_sync, Type::dist_async})
    if (type == store_type_name(other)) store.type = other;
  const bool local = store.type == Type::local;
  if (store.is_dist() || options.describing())
    store.servers = static_cast<int>(
        options.integer("servers", 0,
                        {.min = 0,
                         .max = kMostServers,
                         .help = "for types dist_*: so many processes, the last ones, are servers only, and one more "
                                 "is the scheduler; 0: each process has a server"}));
  if (store.is_asynchronous() || options.describing())
    store.max_staleness = options.optional_integer(
        "max_staleness",
        {.min = 0,
         .max = kMostSteps,
         .help = "for type dist_async: steps that a process may be ahead of the slowest one; any number by default"});
  // Host memory is a single place, so `type: local` has no placement.
  if (!local || options.has("placement")) {
    const std::string placement =
        options.one_of("placement", placements, "balanced",
                       "how keys are assigned to devices: by bytes, or by key number modulo devices");
    if (placement == "round_robin") store.placement = Placement::round_robin;
    if (local)
      options.mistake("placement", "expected none with type: local, whose keys are all in host memory", placement,
                      "leave it out, or write type: device");
  }
  return {.name = {},
          .make = [store](const StrategyContext& context) { return std::make_unique<KvStore>(context, store); },
          .parts = request.devices,
          .over_processes = !local,
          .by_process = store.is_dist(),
          .store_servers = store.is_dist() ? std::optional(store.servers) : std::nullopt,
          .max_staleness = store.max_staleness,
          .in_step = !store.is_asynchronous(),
          .refuse_settings = store.is_asynchronous() ? refuse_out_of_step : nullptr};
}

}  // namespace dptrain::parallel
