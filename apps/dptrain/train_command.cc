#include <fmt/format.h>
#include <signal.h>

#include <memory>

#include "base/error.h"
#include "commands.h"
#include "config/config_reader.h"
#include "config_flags.h"
#include "output.h"
#include "program.h"
#include "stop_signals.h"
#include "train/run_directory.h"
#include "train/summary.h"
#include "train/trainer.h"
#include "training_display.h"

namespace dptrain::app {
namespace {

struct TrainFlags {
  ConfigFlags common;
  bool overwrite = false;
};

int train_with(const TrainFlags& flags) {
  train::StopSignal& stop = watch_stop_signals();
  train::Experiment experiment;
  const ConfigSession session(flags.common.load(), [&](ConfigReader& reader) {
    experiment = train::read_experiment(reader, flags.common.default_name());
  });
  if (flags.common.dump_config) {
    write_output(session.resolved_yaml_with_origins());
    return 0;
  }
  // Everything that can be refused is refused before a device allocates anything.
  const Datasets data = experiment.dataset.open();
  train::require_model_fits(experiment, *data.train);
  const std::filesystem::path out = flags.common.out.value_or("runs/" + experiment.name);
  train::RunDirectory directory(out, flags.overwrite);
  directory.write_config(session.resolved_yaml());

  TrainingDisplay display({.quiet = flags.common.quiet, .json = flags.common.json, .progress = flags.common.progress},
                          stop);
  display.on_start(experiment, out.string());
  train::Trainer trainer(experiment, data);
  const train::TrainingOutcome outcome = trainer.run(directory, display, stop);
  // A last row that could not be shown ends a run that was trained to its end, too.
  const bool unwritten = stop.load() == SIGPIPE;
  const int code = unwritten ? static_cast<int>(ExitCode::io) : outcome.signal == 0 ? 0 : 128 + outcome.signal;
  directory.write_summary(train::summary_json(
      experiment, outcome, code, {.version = version(), .commit = git_commit(), .libraries = parts_present()},
      session.resolved_yaml()));
  display.on_finish(outcome, out.string());
  if (stop.load() == SIGPIPE)
    throw Error(ExitCode::io,
                fmt::format("standard output: could not write, is the disk full or the reader gone? Stopped "
                            "after step {}; the weights are in {}",
                            outcome.steps, outcome.weights.string()));
  if (outcome.signal != 0)
    throw Error(static_cast<ExitCode>(code),
                fmt::format("stopped by {} after step {}; the weights are in {}", signal_name(outcome.signal),
                            outcome.steps, outcome.weights.string()));
  return 0;
}

}  // namespace

Run add_train_command(CLI::App& command) {
  auto flags = std::make_shared<TrainFlags>();
  flags->common.add_to(command);
  command.add_flag("--overwrite", flags->overwrite, "replace the run directory's files of an earlier run");
  return [flags] { return train_with(*flags); };
}

}  // namespace dptrain::app
