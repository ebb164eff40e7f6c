#include "first_steps_command.h"

#include <fmt/format.h>

#include <algorithm>
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
#include "train/strategy_context.h"

namespace dptrain::app {
namespace {

/// How many roundings the initial weights are off, in each of the runs that show how far losses may deviate.
constexpr std::array kNudges = {256, -256, 192};

void require_repeatable(const train::Experiment& experiment) {
  const auto refuse = [&](const char* key, const char* advice) {
    throw Error(ExitCode::config,
                Mistake{.where = key,
                        .expected = "the compared steps have to begin alike, expected a setting that isn't measured",
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

int64_t steps_of_training(const train::Experiment& experiment, const Dataset& data) {
  if (experiment.steps) return *experiment.steps;
  return *experiment.epochs * ((data.samples() + experiment.batch_size - 1) / experiment.batch_size);
}

int64_t blessed_steps(const std::optional<int64_t>& asked, int64_t there) {
  constexpr int64_t kSteps = 20;
  if (there < kFewestBlessedSteps)
    throw Error(ExitCode::config,
                Mistake{.where = "bless",
                        .expected = fmt::format("expected a run of at least {} steps", kFewestBlessedSteps),
                        .got = fmt::format("{}", there),
                        .advice = "train for longer, or use a smaller batch_size"});
  if (!asked) return std::min(kSteps, there);
  if (*asked > there)
    throw Error(ExitCode::usage, Mistake{.where = "--steps",
                                         .expected = fmt::format("expected at most the {} steps of the run", there),
                                         .got = fmt::format("{}", *asked),
                                         .advice = "leave it out, or train for longer"});
  return *asked;
}

/// The steps of an experiment; each call trains them from the beginning.
class FirstStepsOf {
 public:
  explicit FirstStepsOf(const ConfigFlags& flags) : read_(flags) {
    if (read_.dumped) return;
    require_repeatable(read_.experiment);
    if (read_.experiment.initial_weights)
      read_.experiment.initial_weights->path =
          train::find_weights(read_.experiment.initial_weights->path, tell_of_damage);
    data_ = read_.experiment.dataset.open();
    train::require_trainable(read_.experiment, *data_.train);
  }

  bool was_dumped() const { return read_.dumped; }
  const train::Experiment& experiment() const { return read_.experiment; }
  int64_t steps_of_training() const { return app::steps_of_training(read_.experiment, *data_.train); }

  train::FirstSteps trained(int64_t steps, int nudge_roundings) const {
    train::FirstSteps first = train::train_first_steps(
        read_.experiment, data_, {.steps = steps, .nudge_roundings = nudge_roundings, .stop = &stop_});
    if (const int signal = stop_.load(); signal != 0)
      throw Error(exit_code_of_signal(signal), fmt::format("stopped by {}; nothing was written", signal_name(signal)));
    return first;
  }
  train::Blessing blessing(int64_t steps) const {
    return {.run = read_.experiment.name,
            .config = read_.session.resolved_yaml(),
            .version = version(),
            .commit = git_commit(),
            .instructions = cpu_instructions(),
            .first = trained(steps, 0),
            .loss_bounds = {},
            .memory_varies = read_.experiment.shards > 0 && std::ranges::max(read_.experiment.threads) > 1};
  }

 private:
  const train::StopSignal& stop_ = watch_stop_signals();
  ReadExperiment read_;
  Datasets data_;
};

}  // namespace

std::optional<train::Blessing> bless_first_steps(const ConfigFlags& flags, const std::optional<int64_t>& steps) {
  const FirstStepsOf training(flags);
  if (training.was_dumped()) return std::nullopt;
  const int64_t count = blessed_steps(steps, training.steps_of_training());
  train::Blessing blessing = training.blessing(count);
  require_finite(blessing.first);
  std::vector<train::FirstSteps> nudged;
  for (const int roundings : kNudges) {
    nudged.push_back(training.trained(count, roundings));
    require_finite(nudged.back());
  }
  blessing.loss_bounds = train::loss_bounds(blessing.first, nudged, training.experiment().precision);
  return blessing;
}

std::optional<train::Blessing> train_first_steps(const ConfigFlags& flags, int64_t steps) {
  const FirstStepsOf training(flags);
  if (training.was_dumped()) return std::nullopt;
  return training.blessing(steps);
}

}  // namespace dptrain::app
