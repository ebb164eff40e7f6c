#include "train/learning_settings.h"

#include <fmt/format.h>

#include <cmath>

#include "config/f32_range.h"

namespace dptrain::train {
namespace {

/// With this limit the number of samples can be counted for any batch size.
constexpr int64_t kMostSteps = 100'000'000'000;

/// Reads `learning_rate` and scales it by `lr_rule`: linear as in Goyal et al. (2017), or with the square root as in
/// Krizhevsky (2014).
double read_learning_rate(ConfigReader& config, int64_t batch_size) {
  const double rate =
      config.number("learning_rate", std::nullopt,
                    {.min = 0, .max = kMostF32, .exclusive_min = true, .help = "learning rate of the optimizer"});
  if (!config.describing() && rate > 0 && rate < kLeastF32)
    config.mistake("learning_rate", fmt::format("expected a rate of at least {}", kLeastF32), fmt::format("{}", rate),
                   "below that it is 0 in f32");
  double reference = 1;
  const auto read_reference = [&reference](ConfigReader& options) {
    reference = static_cast<double>(options.integer(
        "reference_batch_size", std::nullopt, {.min = 1, .help = "the batch size that learning_rate is meant for"}));
  };
  const std::vector<ConfigChoice> choices = {
      {"none", "as it is", {}},
      {"linear", "the rate times batch_size / reference_batch_size", read_reference},
      {"sqrt", "the rate times the square root of batch_size / reference_batch_size", read_reference}};
  const std::string rule = config.named("lr_rule", choices, "none", "how the rate follows the batch size");
  if (config.describing() || rule == "none") return rate;
  const double ratio = static_cast<double>(batch_size) / reference;
  return rate * (rule == "linear" ? ratio : std::sqrt(ratio));
}

void read_length(ConfigReader& config, Experiment& experiment) {
  experiment.epochs =
      config.optional_integer("epochs", {.min = 1, .max = 1000000, .help = "passes over the training set"});
  experiment.steps =
      config.optional_integer("steps", {.min = 1, .max = kMostSteps, .help = "optimizer steps, instead of epochs"});
  if (config.describing()) return;
  if (config.has("epochs") && config.has("steps"))
    config.mistake("steps", "expected epochs or steps", "both",
                   "leave one of them out, as --set epochs= or --set steps= does");
  if (!config.has("epochs") && !config.has("steps"))
    config.mistake("epochs", "required, but absent", "", "write epochs: <number>, or steps: <number>");
}

}  // namespace

void read_learning(ConfigReader& config, Experiment& experiment) {
  experiment.learning_rate = read_learning_rate(config, experiment.batch_size);
  experiment.schedule = optim::read_schedule(config);
  if (!config.describing() && experiment.schedule.min > experiment.learning_rate)
    config.mistake("schedule",
                   fmt::format("expected its min to be at most the learning rate, {}", experiment.learning_rate),
                   fmt::format("{}", experiment.schedule.min), "write a smaller min");
  read_length(config, experiment);
  experiment.optimizer = optim::read_optimizer(config);
  experiment.clip_norm = config.optional_number(
      "clip_norm", {.min = 0,
                    .max = kMostF32,
                    .exclusive_min = true,
                    .help = "the largest norm of the gradients: larger ones are scaled down to it"});
  experiment.label_smoothing = config.number(
      "label_smoothing", 0,
      {.min = 0, .max = 1, .exclusive_max = true, .help = "share of the target that is spread over all classes"});
  experiment.average_decay =
      config.optional_number("ema", {.min = 0,
                                     .max = 1,
                                     .exclusive_max = true,
                                     .help = "decay of a moving average of the weights, which evaluations use",
                                     .example = 0.999});
}

}  // namespace dptrain::train
