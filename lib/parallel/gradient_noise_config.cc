#include "parallel/strategy_config.h"

namespace dptrain::parallel {

namespace {

void refuse_shared_statistics(ConfigReader& config, const TrainingSettings& settings) {
  // The gradient of shared statistics goes to all devices, so no device's own part is the gradient of its samples.
  if (settings.batch_norm == BatchNormMode::sync)
    config.mistake("batch_norm",
                   "strategy.gradient_noise compares devices that each have batch statistics of their own, "
                   "expected local, average or first",
                   "sync", "choose one of these, or leave out gradient_noise");
}

}  // namespace

void read_gradient_noise(ConfigReader& options, const StrategyRequest& request, StrategySpec& spec) {
  spec.measures_noise =
      options.boolean("gradient_noise", false,
                      "measure how much the gradients of single samples differ from each other: how large a batch is "
                      "worth its samples (gradient_noise in metrics.jsonl)");
  if (!spec.measures_noise) return;
  spec.refuse_settings = refuse_shared_statistics;
  if (!options.describing() && request.devices < 2)
    options.mistake("gradient_noise", "compares the gradients of devices, expected two devices or more", "one",
                    "list the device twice, as in devices: [cpu:0, cpu:0], or leave it out");
}

}  // namespace dptrain::parallel
