#include <fmt/format.h>

#include <memory>

#include "parallel/fsdp.h"
#include "parallel/strategy_config.h"

namespace dptrain::parallel {

StrategySpec read_fsdp(ConfigReader& options, const StrategyRequest& request) {
  Fsdp::Options read;
  if (!options.word("unit_mb", "auto", true))
    read.unit_mb = options.number("unit_mb", {},
                                  {.min = 0,
                                   .max = kMostMb,
                                   .exclusive_min = true,
                                   .help = "MiB of weights up to which neighboring stages are gathered together; auto: "
                                           "a sixteenth of the model's weights. A stage is never cut"});
  read.reshard_after_forward =
      options.boolean("reshard_after_forward", read.reshard_after_forward,
                      "forget a unit's weights after its forward pass, and gather them again for backward; false: keep "
                      "them until then (ZeRO-2)");
  read.replicas = static_cast<int>(options.integer(
      "replicas", 1,
      {.min = 1,
       .max = 1024,
       .help = "whole copies of the weights, each spread over devices / replicas neighbors, at least two (PyTorch's "
               "HYBRID_SHARD): weights stay within a copy, and only sums of gradients go between copies"}));
  if (!options.describing() && read.replicas > 1 &&
      (request.devices % read.replicas != 0 || request.devices < 2 * read.replicas))
    options.mistake("replicas",
                    fmt::format("{} copies of the weights need a multiple of {} devices, at least {}", read.replicas,
                                read.replicas, 2 * read.replicas),
                    fmt::format("{}", request.devices), "list another number of devices, or change replicas");
  StrategySpec spec{
      .name = {}, .make = {}, .parts = request.devices, .over_processes = true, .deals_out_weights = true};
  read_gradient_noise(options, request, spec);
  read.measures_noise = spec.measures_noise;
  spec.make = [read](const StrategyContext& context) { return std::make_unique<Fsdp>(context, read); };
  return spec;
}

}  // namespace dptrain::parallel
