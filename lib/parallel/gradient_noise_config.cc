#include "parallel/strategy_config.h"

namespace dptrain::parallel {

bool read_gradient_noise(ConfigReader& options, const StrategyRequest& request) {
  const bool measures =
      options.boolean("gradient_noise", false,
                      "measure how much the gradients of single samples differ from each other: how large a batch is "
                      "worth its samples (gradient_noise in metrics.jsonl)");
  if (measures && !options.describing() && request.devices < 2)
    options.mistake("gradient_noise", "compares the gradients of devices, expected two devices or more", "one",
                    "list the device twice, as in devices: [cpu:0, cpu:0], or leave it out");
  return measures;
}

}  // namespace dptrain::parallel
