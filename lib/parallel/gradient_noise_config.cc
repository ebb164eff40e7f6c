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

void refuse_beside_gradient_noise(ConfigReader& config, const TrainingSettings& settings) {
  // The gradient of shared statistics goes to all devices, so no device's own part is the gradient of its samples.
  if (settings.batch_norm == BatchNormMode::sync)
    config.mistake("batch_norm",
                   "strategy.gradient_noise compares devices that each have batch statistics of their own, "
                   "expected local, average or first",
                   "sync", "choose one of these, or leave out gradient_noise");
}

}  // namespace dptrain::parallel
