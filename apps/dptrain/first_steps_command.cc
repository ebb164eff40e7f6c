#include "first_steps_command.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <vector>

#include "base/error.h"
#include "device/cpu_bf16.h"
#include "output.h"
#include "program.h"
#include "read_experiment.h"
#include "stop_signals.h"
#include "train/checkpoint_files.h"

namespace dptrain::app {
namespace {

/// That the weights of the trainings begin off which say how far losses may be off.
constexpr std::array kNudges = {256, -256, 192};

void require_repeatable(const train::Experiment& experiment, const std::string& config) {
  const auto refuse = [&](const char* key, const char* advice) {
    throw Error(ExitCode::config,
                Mistake{.where = fmt::format("{}: {}", config, key),
                        .expected = "steps that are held to each other begin alike, expected nothing to be measured",
                        .got = "auto",
                        .advice = advice});
  };
  if (experiment.strategy.trial_steps) refuse("strategy", "name one, such as --set strategy=ddp");
  if (experiment.split.measured) refuse("split", "write for instance --set split=even");
}

void require_finite(const train::FirstSteps& first) {
  for (size_t i = 0; i < first.steps.size(); ++i)
    if (!std::isfinite(first.steps[i].loss))
      throw Error(ExitCode::diverged,
                  fmt::format("the loss of step {} is {}; nothing was written, a smaller learning_rate may help", i + 1,
                              first.steps[i].loss));
}

}  // namespace

std::optional<train::Blessing> train_first_steps(const ConfigFlags& flags, int64_t steps, bool bounded) {
  ReadExperiment read(flags);
  if (read.dumped) return std::nullopt;
  train::Experiment& experiment = read.experiment;
  require_repeatable(experiment, flags.config);
  const train::StopSignal& stop = watch_stop_signals();
  if (experiment.initial_weights)
    experiment.initial_weights->path = train::find_weights(experiment.initial_weights->path, tell_of_damage);
  const Datasets data = experiment.dataset.open();
  const auto trained = [&](int nudge_roundings) {
    train::FirstSteps first =
        train::train_first_steps(experiment, data, {.steps = steps, .nudge_roundings = nudge_roundings, .stop = &stop});
    if (const int signal = stop.load(); signal != 0)
      throw Error(exit_code_of_signal(signal), fmt::format("stopped by {}; nothing was written", signal_name(signal)));
    return first;
  };
  train::Blessing blessing{.run = experiment.name,
                           .config = read.session.resolved_yaml(),
                           .version = version(),
                           .commit = git_commit(),
                           .instructions = cpu_instructions(),
                           .first = trained(0),
                           .loss_bounds = {}};
  if (!bounded) return blessing;
  require_finite(blessing.first);
  std::vector<train::FirstSteps> nudged;
  for (const int roundings : kNudges) {
    nudged.push_back(trained(roundings));
    require_finite(nudged.back());
  }
  blessing.loss_bounds = train::loss_bounds(blessing.first, nudged, experiment.precision);
  return blessing;
}

}  // namespace dptrain::app
