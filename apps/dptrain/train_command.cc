#include <fmt/format.h>
#include <signal.h>

#include <filesystem>
#include <memory>
#include <optional>

#include "base/error.h"
#include "base/sha256.h"
#include "commands.h"
#include "output.h"
#include "program.h"
#include "read_experiment.h"
#include "stop_signals.h"
#include "train/run_directory.h"
#include "train/strategy_context.h"
#include "train/strategy_trials.h"
#include "train/summary.h"
#include "train/trainer.h"
#include "training_display.h"

namespace dptrain::app {
namespace {

namespace fs = std::filesystem;

bool lies_in(const fs::path& path, const fs::path& folder) {
  std::error_code unreadable;
  const fs::path relative =
      fs::weakly_canonical(path, unreadable).lexically_relative(fs::weakly_canonical(folder, unreadable));
  return !relative.empty() && *relative.begin() != "..";
}

struct TrainFlags {
  ConfigFlags common;
  bool overwrite = false;
  bool resume = false;
  std::string checkpoint;  ///< to resume from; by default the run directory's newest

  /// What goes on from another run's checkpoint takes nothing of what a run has left in `out`.
  train::EarlierRun earlier_run(const fs::path& out) const {
    if (resume && (checkpoint.empty() || lies_in(checkpoint, out))) return train::EarlierRun::resume;
    return overwrite ? train::EarlierRun::overwrite : train::EarlierRun::refuse;
  }
};

/// What to go on from: the checkpoint that was named, else the newest of the run directory, which may have none.
std::optional<train::ResumePoint> resume_point(const TrainFlags& flags, const train::RunDirectory& directory) {
  if (!flags.resume) return std::nullopt;
  const fs::path named = flags.checkpoint;
  std::error_code unreadable;
  if (!named.empty() && !fs::is_directory(named / "checkpoints", unreadable))
    return train::ResumePoint{.checkpoint = train::read_checkpoint(named), .folder = named};
  const auto folder = named.empty() ? directory.checkpoints() : named / "checkpoints";
  const auto found = train::newest_checkpoint(folder, tell_of_damage);
  if (!found && !named.empty()) train::read_checkpoint(named);
  return found;
}

int train_with(const TrainFlags& flags) {
  train::StopSignal& stop = watch_stop_signals();
  ReadExperiment read(flags.common);
  if (read.dumped) return 0;
  train::Experiment& experiment = read.experiment;
  // Everything that can be refused is refused before a device allocates anything.
  const Datasets data = experiment.dataset.open();
  train::require_model_fits(experiment, *data.train);
  const fs::path out = flags.common.out.value_or("runs/" + experiment.name);
  train::RunDirectory directory(out, flags.earlier_run(out));
  train::remove_unfinished_checkpoints(directory.checkpoints());
  const auto resume = resume_point(flags, directory);
  auto& weights = experiment.initial_weights;
  if (!resume && weights) weights = train::find_weights(*weights, tell_of_damage);
  const std::string config = read.session.resolved_yaml();

  TrainingDisplay display({.quiet = flags.common.quiet, .json = flags.common.json, .progress = flags.common.progress},
                          stop);
  const int stopped = train::choose_strategy(
      experiment,
      {.config = read.config, .data = data, .observer = display, .stop = stop, .resume = resume ? &*resume : nullptr});
  if (stopped != 0)
    throw Error(static_cast<ExitCode>(128 + stopped),
                fmt::format("stopped by {} in the trials of strategy: auto, before the first step of the training",
                            signal_name(stopped)));
  train::Trainer trainer(experiment, data, sha256_of(config), resume);
  const train::TrainingPosition& position = trainer.position();
  if (resume && trainer.finished() && directory.has_summary()) {
    display.on_finished_before(position.step, out.string());
    return 0;
  }
  if (flags.resume) {
    directory.go_back_to(position.epochs + (position.reported ? 1 : 0), position.step);
    for (const fs::path& later : train::put_aside_after(directory.checkpoints(), position.step))
      write_message(fmt::format("{}: of a later step than {}, put aside\n", later.string(), position.step));
  } else {
    directory.remove_earlier_run();
  }
  directory.write_config(config);
  display.on_start(experiment, out.string());
  if (resume) display.on_resume(*resume, experiment, sha256_of(config));
  const train::TrainingOutcome outcome = trainer.run(directory, display, stop);
  // A last row that could not be shown ends a run that was trained to its end, too.
  const bool unwritten = stop.load() == SIGPIPE;
  const int code = unwritten ? static_cast<int>(ExitCode::io) : outcome.signal == 0 ? 0 : 128 + outcome.signal;
  directory.write_summary(train::summary_json(
      experiment, outcome, code, {.version = version(), .commit = git_commit(), .libraries = parts_present()}, config));
  display.on_finish(outcome, out.string());
  if (stop.load() == SIGPIPE)
    throw Error(ExitCode::io,
                fmt::format("standard output: could not write, is the disk full or the reader gone? Stopped "
                            "after step {}; the weights are in {}",
                            outcome.steps, outcome.weights.string()));
  if (outcome.signal != 0)
    throw Error(static_cast<ExitCode>(code),
                fmt::format("stopped by {} after step {}; the weights are in {}, --resume goes on from them",
                            signal_name(outcome.signal), outcome.steps, outcome.weights.string()));
  return 0;
}

}  // namespace

Run add_train_command(CLI::App& command) {
  auto flags = std::make_shared<TrainFlags>();
  flags->common.add_to(command, {.out = "the run directory; runs/<name> by default",
                                 .json = "print the metrics as JSON lines on stdout; everything else goes to stderr"});
  auto* overwrite =
      command.add_flag("--overwrite", flags->overwrite, "replace the run directory's files of an earlier run");
  command
      .add_option_function<std::vector<std::string>>(
          "--resume",
          [flags](const std::vector<std::string>& values) {
            flags->resume = true;
            if (!values.empty()) flags->checkpoint = values[0];
          },
          "go on with the run directory where it has a checkpoint, or with this one; else start")
      ->expected(0, 1)
      ->type_name("[CHECKPOINT]")
      ->excludes(overwrite);
  return [flags] { return train_with(*flags); };
}

}  // namespace dptrain::app
