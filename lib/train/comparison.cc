#include "train/comparison.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/sha256.h"
#include "device/host_machine.h"
#include "train/earlier_comparison.h"
#include "train/strategy_context.h"
#include "train/strategy_trials.h"
#include "train/training_warnings.h"
#include "train/trial_training.h"

namespace dptrain::train {
namespace {

/// Whether the training has an epoch that the figures leave out as its warm-up.
bool warms_up_itself(const Experiment& experiment, const Datasets& data) {
  const int64_t batches = (data.train->samples() + experiment.batch_size - 1) / experiment.batch_size;
  return (experiment.steps ? *experiment.steps / batches : *experiment.epochs) >= 2;
}

/// The computing power of a run. CPU workers count the cores that their threads can use; GPUs count once, even if one
/// is listed twice.
std::optional<ComputingPower> computing_power(const Experiment& experiment) {
  const DeviceKind kind = experiment.devices.front().kind;
  std::set<std::string> names;
  for (const DeviceId& device : experiment.devices) {
    if (device.kind != kind) return std::nullopt;
    names.insert(device.name());
  }
  if (kind != DeviceKind::cpu) return ComputingPower{.kind = kind, .units = static_cast<double>(names.size())};
  const int threads = std::accumulate(experiment.threads.begin(), experiment.threads.end(), 0);
  return ComputingPower{.kind = kind, .units = static_cast<double>(std::min(threads, usable_cores()))};
}

/// Trains some steps that don't count. Otherwise the first run would pay for things that all runs of a process share:
/// threads, memory, kernels for these shapes.
void warm_up(const Experiment& experiment, const Datasets& data, const StopSignal& stop) {
  try {
    TrialTraining training(experiment, data);
    for (int step = 0; step < kWarmUpSteps && stop.load() == 0; ++step) training.train_step();
  } catch (const Error&) {
    // The training itself will fail in the same way, and has a run directory to report it in.
  }
}

}  // namespace

Comparison::Comparison(const ComparisonPlan& plan, const Options& options) : plan_(plan), options_(options) {
  for (const PlannedRun& run : plan_.runs) {
    const Experiment& experiment = run.trainings.front().experiment;
    with_prefix("run " + run.name, [&] {
      const Datasets data = experiment.dataset.open();
      require_trainable(experiment, *data.train);
    });
    auto& directories = directories_.emplace_back();
    for (const PlannedTraining& training : run.trainings) {
      directories.push_back(std::make_unique<RunDirectory>(training.directory, options_.earlier, /*resumable=*/false));
      remove_unfinished_checkpoints(directories.back()->checkpoints());
    }
    RunFigures& figures = figures_.emplace_back(
        RunFigures{.run = run.name, .strategy = experiment.strategy.name, .devices = {}, .trainings = {}});
    for (const DeviceId& device : experiment.devices) figures.devices.push_back(device.name());
    const int64_t shares = static_cast<int64_t>(experiment.devices.size()) * experiment.accumulate;
    figures.power = computing_power(experiment);
    figures.device_batch = (experiment.batch_size + shares - 1) / shares;
  }
  if (options_.earlier == EarlierRun::overwrite && !options_.out.empty()) hold_stale_runs();
  if (options_.earlier == EarlierRun::refuse && !options_.out.empty()) refuse_earlier_comparison(options_.out);
  for (const PlannedRun& run : plan_.runs) with_prefix("run " + run.name, [&] { find_initial_weights(run); });
}

void Comparison::find_initial_weights(const PlannedRun& run) {
  const auto& weights = run.trainings.front().experiment.initial_weights;
  if (!weights || weights_.contains(weights->path)) return;
  const std::filesystem::path& named = weights->path;
  const auto refuse_where_replaced = [&](const RunDirectory& directory) {
    if (options_.earlier != EarlierRun::overwrite || !lies_in_run(named, directory.path())) return;
    throw Error(ExitCode::usage,
                Mistake{.where = named.string(),
                        .expected = "expected initial weights outside the runs that --overwrite replaces",
                        .got = fmt::format("the weights of {}", directory.path().string()),
                        .advice = "copy them elsewhere, or choose another --out"});
  };
  for (const auto& directories : directories_)
    for (const auto& directory : directories) refuse_where_replaced(*directory);
  for (const auto& directory : stale_) refuse_where_replaced(*directory);
  weights_.emplace(named, find_weights(named, options_.report_damage));
}

void Comparison::hold_stale_runs() {
  std::set<std::filesystem::path> held;
  for (const PlannedRun& run : plan_.runs)
    for (const PlannedTraining& training : run.trainings) held.insert(training.directory.lexically_normal());
  std::error_code error;
  for (const auto& directory : runs_of_earlier_comparison(options_.out)) {
    if (!std::filesystem::is_directory(directory, error) || !held.insert(directory.lexically_normal()).second) continue;
    stale_.push_back(std::make_unique<RunDirectory>(directory, EarlierRun::overwrite));
  }
}

int Comparison::run(const WatchTraining& watch, const StopSignal& stop) {
  if (stop.load() != 0) return stop.load();
  for (const auto& directory : stale_) {
    directory->remove();
    // For repeated runs, this is the folder of their seeds.
    ::rmdir(directory->path().parent_path().c_str());
  }
  stale_.clear();
  if (options_.earlier == EarlierRun::overwrite && !options_.out.empty()) remove_earlier_comparison(options_.out);
  const size_t repetitions = plan_.runs.front().trainings.size();
  for (size_t repetition = 0; repetition < repetitions; ++repetition)
    for (size_t run = 0; run < plan_.runs.size(); ++run) {
      const int signal =
          with_prefix("run " + plan_.runs[run].name, [&] { return train(run, repetition, watch, stop); });
      if (signal != 0) return signal;
      ++trained_;
      last_step_ = 0;
    }
  return 0;
}

int Comparison::train(size_t run, size_t repetition, const WatchTraining& watch, const StopSignal& stop) {
  if (stop.load() != 0) return stop.load();
  const PlannedTraining& planned = plan_.runs[run].trainings[repetition];
  RunDirectory& directory = *directories_[run][repetition];
  directory.remove_earlier_run();
  directory.write_config(planned.config);
  EpochRecorder recorder(watch(planned));
  try {
    const int signal = train_watched(run, planned, directory, recorder, stop);
    last_step_ = recorder.step();
    return signal;
  } catch (const Error& error) {
    last_step_ = recorder.step();
    failure_ = error.what();
    write_fault(planned, directory, recorder, error);
    throw;
  }
}

void Comparison::write_fault(const PlannedTraining& planned, RunDirectory& directory, const EpochRecorder& recorder,
                             const Error& error) const {
  if (!options_.describe_failure) return;
  const FailedTraining failed{
      .training = planned, .error = error, .step = recorder.step(), .checkpoint = recorder.checkpoint()};
  try {
    directory.write_fault(options_.describe_failure(failed));
  } catch (const Error&) {
    // The failure itself is reported in any case.
  }
}

int Comparison::train_watched(size_t run, const PlannedTraining& planned, RunDirectory& directory,
                              EpochRecorder& recorder, const StopSignal& stop) {
  const Datasets data = planned.experiment.dataset.open();
  const auto keep_figures = [&] {
    if (recorder.epochs().empty()) return;
    TrainingFigures figures = training_figures(recorder.epochs(), data.train->samples());
    figures.seed = planned.experiment.seed;
    figures.directory = planned.directory.string();
    figures_[run].trainings.push_back(std::move(figures));
  };
  Experiment experiment = planned.experiment;
  experiment.on_hung = [&](const Error& error) {
    keep_figures();
    write_fault(planned, directory, recorder, error);
    if (options_.on_hung) options_.on_hung();
  };
  for (const std::string& warning : training_warnings(experiment, data.train->samples())) recorder.on_warning(warning);
  if (auto& weights = experiment.initial_weights) weights->path = weights_.at(weights->path);
  const int stopped =
      choose_strategy(experiment, {.config = planned.source, .data = data, .observer = recorder, .stop = stop});
  if (stopped != 0) return stopped;
  figures_[run].strategy = experiment.strategy.name;
  if (!warms_up_itself(experiment, data)) warm_up(experiment, data, stop);
  Trainer trainer(experiment, data, sha256_of(planned.config));
  TrainingOutcome outcome;
  try {
    outcome = trainer.run(directory, recorder, stop);
  } catch (const Error&) {
    keep_figures();
    throw;
  }
  keep_figures();
  const int code = outcome.signal == 0 ? 0 : static_cast<int>(exit_code_of_signal(outcome.signal));
  Environment environment = options_.environment;
  environment.processes = {process_record(experiment, data)};
  directory.write_summary(summary_json(experiment, outcome, code, environment, planned.config));
  return outcome.signal;
}

std::vector<std::string> Comparison::unfinished() const {
  std::vector<std::string> sentences;
  const size_t runs = plan_.runs.size(), repetitions = plan_.runs.front().trainings.size();
  for (size_t training = trained_; training < runs * repetitions; ++training) {
    const PlannedRun& run = plan_.runs[training % runs];
    const uint64_t seed = run.trainings[training / runs].experiment.seed;
    const std::string name = repetitions > 1 ? fmt::format("{} with seed {}", run.name, seed) : run.name;
    if (training == trained_ && !failure_.empty())
      sentences.push_back(fmt::format("{} failed: {}", name, failure_));
    else if (training == trained_ && last_step_ > 0)
      sentences.push_back(fmt::format("{} was stopped in step {}", name, last_step_));
    else
      sentences.push_back(name + " was not trained");
  }
  return sentences;
}

std::vector<RunFigures> Comparison::figures() const {
  std::vector<RunFigures> measured;
  std::ranges::copy_if(figures_, std::back_inserter(measured),
                       [](const RunFigures& figures) { return !figures.trainings.empty(); });
  return measured;
}

}  // namespace dptrain::train
