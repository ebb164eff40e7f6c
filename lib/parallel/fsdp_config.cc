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
  return {.name = {},
          .make = [read](const StrategyContext& context) { return std::make_unique<Fsdp>(context, read); },
          .parts = request.devices,
          .over_processes = true,
          .deals_out_weights = true};
}

}  // namespace dptrain::parallel
