#include "train/validation_settings.h"

#include <fmt/format.h>

#include <utility>

#include "base/error.h"
#include "data/held_out.h"

namespace dptrain::train {

const char* monitor_name(Monitor monitor) { return monitor == Monitor::loss ? "loss" : "accuracy"; }

ValidationSettings read_validation(ConfigReader& config, const optim::ScheduleSpec& schedule, int64_t eval_every,
                                   std::optional<int64_t> epochs) {
  ValidationSettings settings;
  config.section(
      "validation",
      [&](ConfigReader& options) {
        settings.samples =
            options.integer("samples", 0, {.min = 0, .help = "samples of the training set that are held out; 0: none"});
        const std::vector<ConfigChoice> monitors = {{"loss", "the lowest is the best", {}},
                                                    {"accuracy", "the highest is the best", {}}};
        const std::string monitor = options.named("monitor", monitors, "loss", "what makes an epoch the best");
        settings.monitor = monitor == "accuracy" ? Monitor::accuracy : Monitor::loss;
        settings.patience = options.optional_integer(
            "patience", {.min = 1, .help = "evaluations in a row without improvement that end the run"});
        const bool needs_samples = schedule.kind == optim::ScheduleSpec::Kind::plateau && settings.samples == 0;
        if (needs_samples && config.has("validation"))
          options.mistake("samples", "expected samples to be held out for the schedule plateau", "none",
                          "write samples: 5000, for instance");
        else if (needs_samples && !options.describing())
          config.mistake("schedule", "plateau follows the loss of samples that are held out, expected some", "none",
                         "write validation: {samples: 5000}, or --set validation.samples=5000");
        // An explicit 0 switches the validation off, together with its other options.
        for (const char* key : {"monitor", "patience"})
          if (options.has(key) && !options.has("samples"))
            options.mistake(key, "expected samples to be held out for it", "none", "write samples: 5000, for instance");
      },
      "samples that choose the best epoch, and end a run that gets no better");
  if (!config.describing() && settings.samples > 0 && eval_every == 0)
    config.mistake("eval_every", "expected evaluations for validation", "0, which is never", "write eval_every: 1");
  if (!config.describing() && settings.samples > 0 && epochs && eval_every > *epochs)
    config.mistake("eval_every", fmt::format("expected an evaluation within the {} epochs, for validation", *epochs),
                   fmt::format("one every {}", eval_every), "write eval_every: 1");
  return settings;
}

std::function<Datasets()> opening_with(const ValidationSettings& settings, std::function<Datasets()> open,
                                       const std::string& where) {
  if (settings.samples == 0) return open;
  return [open = std::move(open), held_out = settings.samples, where] {
    const Datasets data = open();
    const int64_t samples = data.train->samples();
    if (held_out >= samples)
      throw Error(ExitCode::config,
                  Mistake{.where = where + ".samples",
                          .expected = fmt::format("expected fewer than the {} training samples", samples),
                          .got = fmt::format("{}", held_out),
                          .advice = "hold out fewer"});
    return hold_out(data, held_out);
  };
}

}  // namespace dptrain::train
