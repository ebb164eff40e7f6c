#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/host_name.h"
#include "commands.h"
#include "config/config_json.h"
#include "config_flags.h"
#include "fault_flag.h"
#include "output.h"
#include "program.h"
#include "resume_command.h"
#include "stop_signals.h"
#include "train/checkpoint_files.h"
#include "train/comparison.h"
#include "train/comparison_report.h"
#include "train/fault_record.h"
#include "train/fault_spec.h"
#include "train/run_state.h"
#include "training_display.h"
#include "value_checks.h"

namespace dptrain::app {
namespace {

namespace fs = std::filesystem;

struct CompareFlags {
  ConfigFlags common;
  std::vector<std::string> configs;
  std::string strategies;
  std::vector<std::string> assertions;
  std::optional<double> target;
  int64_t repetitions = 1;
  bool overwrite = false;
  std::vector<parallel::InjectedFault> faults;

  /// The runs to compare: one configuration under several strategies, or several configurations. Throws 64 for anything
  /// else.
  std::vector<train::ComparedConfig> compared() const {
    const bool one = !common.config.empty();
    if (one == !configs.empty())
      throw Error(ExitCode::usage,
                  "compare: expected several configurations, or one as --config with --strategies; "
                  "write for instance dptrain compare a.yaml b.yaml");
    if (one != !strategies.empty())
      throw Error(ExitCode::usage,
                  "compare: --config and --strategies go together; write for instance dptrain compare "
                  "--config lenet_ddp_2cpu --strategies single,ddp");
    std::vector<train::ComparedConfig> all;
    if (one) all = train::configs_by_strategy(common.load(), strategies);
    if (const auto run = std::ranges::find_if(configs, train::is_run_directory); run != configs.end())
      throw Error(ExitCode::usage, Mistake{.where = *run,
                                           .expected = "compare trains configurations, expected one",
                                           .got = "a run",
                                           .advice = "dptrain table and dptrain report show runs side by side"});
    for (const std::string& name : configs)
      all.push_back({.name = ConfigFlags::default_name(name), .config = common.load(name)});
    // An unknown strategy name is reported before a missing second run.
    if (all.size() == 1) train::plan_comparison(all, out(), 1);
    if (all.size() < 2)
      throw Error(ExitCode::usage, fmt::format("compare: expected at least two runs, got {}; name another {}",
                                               all.size(), one ? "strategy" : "configuration"));
    return all;
  }

  fs::path out() const {
    if (common.out) return *common.out;
    if (!common.config.empty()) return "runs/compare-" + common.default_name();
    std::vector<std::string> names;
    for (const std::string& name : configs) names.push_back(ConfigFlags::default_name(name));
    return fmt::format("runs/compare-{}", fmt::join(names, "-"));
  }
};

/// Prints the configurations: one YAML document per run, or one JSON document with all of them by name.
int dump(const train::ComparisonPlan& plan, bool json) {
  if (json) {
    nlohmann::ordered_json runs;
    for (const train::PlannedRun& run : plan.runs)
      runs[run.name] = nlohmann::ordered_json::parse(config_json(run.trainings.front().config));
    write_output(runs.dump(2) + "\n");
    return 0;
  }
  std::string text;
  for (const train::PlannedRun& run : plan.runs)
    text += fmt::format("---  # {}\n{}", run.name, run.trainings.front().config_with_origins);
  write_output(text);
  return 0;
}

/// Whether the training is long enough for an evaluation.
bool is_evaluated(const train::Experiment& experiment) {
  if (experiment.eval_every == 0) return false;
  if (experiment.epochs) return experiment.eval_every <= *experiment.epochs;
  const int64_t samples = experiment.dataset.open().train->samples();
  const int64_t batches = (samples + experiment.batch_size - 1) / experiment.batch_size;
  return experiment.eval_every <= (*experiment.steps + batches - 1) / batches;
}

std::vector<train::ComparisonAssertion> read_assertions(const CompareFlags& flags, const train::ComparisonPlan& plan) {
  std::vector<train::AssertedRun> runs;
  if (flags.assertions.empty()) return {};
  for (const train::PlannedRun& run : plan.runs)
    runs.push_back({.name = run.name,
                    .evaluated = is_evaluated(run.trainings.front().experiment),
                    .has_target = flags.target.has_value()});
  std::vector<train::ComparisonAssertion> assertions;
  for (const std::string& expression : flags.assertions) assertions.emplace_back(expression, runs);
  return assertions;
}

/// Writes compare.json and compare.md, and prints the JSON document or the table. Does nothing if nothing was measured.
void tell(const train::ComparisonReport& report, const CompareFlags& flags) {
  if (report.runs.empty()) return;
  const fs::path out = flags.out();
  const std::string json = report.json() + "\n";
  write_file_atomically(out / "compare.json", json);
  write_file_atomically(out / "compare.md", report.markdown());
  if (flags.common.json)
    write_output(json);
  else if (!flags.common.quiet)
    write_output(fmt::format("{}\n{}: compare.md, compare.json and one directory per run\n",
                             report.text(terminal_width(STDOUT_FILENO)), out.string()));
}

std::vector<train::RunFigures> figures_of(const train::Comparison& comparison, const CompareFlags& flags) {
  std::vector<train::RunFigures> runs = comparison.figures();
  for (train::RunFigures& run : runs) run.target = flags.target;
  return runs;
}

/// The text of fault.json for a failed training. The training can be resumed without the comparison.
std::string fault_of(const train::FailedTraining& failed) {
  const std::string directory = failed.training.directory.string();
  train::FaultRecord record;
  record.run = failed.training.experiment.name;
  record.exit = failed.error.code();
  record.root = {.rank = 0,
                 .host = host_name(),
                 .pid = ::getpid(),
                 .step = failed.step,
                 .operation = {},
                 .cause = failed.error.what()};
  if (failed.checkpoint >= 0) {
    const fs::path checkpoint = failed.training.directory / "checkpoints" / train::checkpoint_name(failed.checkpoint);
    record.last_checkpoint = {
        .path = checkpoint, .step = failed.checkpoint, .manifest_sha256 = train::manifest_sha256(checkpoint)};
  }
  record.steps_lost = std::max<int64_t>(0, failed.step - std::max<int64_t>(0, failed.checkpoint));
  const std::vector<std::string> words = start_words(1);
  record.resume = start_command({words.empty() ? "dptrain" : words.front(), "--config", directory + "/config.yaml",
                                 "--out", directory, "--resume"});
  return train::fault_json(record);
}

/// The devices of all runs.
std::vector<DeviceId> devices_of(const train::ComparisonPlan& plan) {
  std::vector<DeviceId> devices;
  for (const train::PlannedRun& run : plan.runs)
    for (const train::PlannedTraining& training : run.trainings)
      devices.insert(devices.end(), training.experiment.devices.begin(), training.experiment.devices.end());
  return devices;
}

/// Gives every run that has the fault's rank the fault, which only delays it. Throws 64 for a fault that would end the
/// comparison, and for a rank that no run has.
void suffer(train::ComparisonPlan& plan, const std::vector<parallel::InjectedFault>& faults) {
  size_t most = 0;
  for (const train::PlannedRun& run : plan.runs) most = std::max(most, run.trainings.front().experiment.devices.size());
  train::require_ranks(faults, most, /*is_job=*/false);
  for (const parallel::InjectedFault& fault : faults) {
    if (fault.kind != parallel::InjectedFault::Kind::slow)
      throw Error(ExitCode::usage, Mistake{.where = "--fault",
                                           .expected = "expected slow, which compare can measure",
                                           .got = fmt::format("'{}'", train::fault_text(fault)),
                                           .advice = "use dptrain train for the other kinds"});
    for (train::PlannedRun& run : plan.runs)
      for (train::PlannedTraining& training : run.trainings)
        if (static_cast<size_t>(fault.rank) < training.experiment.devices.size())
          training.experiment.faults.push_back(fault);
  }
}

int compare_with(const CompareFlags& flags) {
  train::StopSignal& stop = watch_stop_signals();
  train::ComparisonPlan plan = train::plan_comparison(flags.compared(), flags.out(), flags.repetitions);
  if (flags.common.dump_config) return dump(plan, flags.common.json);
  suffer(plan, flags.faults);
  const auto assertions = read_assertions(flags, plan);
  train::ComparisonReport report{
      .runs = {}, .differences = plan.differences, .assertions = {}, .faults = flags.faults, .finished = false};
  const auto tell_what_was_measured = [&](const train::Comparison& comparison) {
    report.runs = figures_of(comparison, flags);
    report.unfinished = comparison.unfinished();
    tell(report, flags);
  };
  train::Comparison comparison(
      plan, {.earlier = flags.overwrite ? train::EarlierRun::overwrite : train::EarlierRun::refuse,
             .out = flags.out(),
             .environment = {.version = version(), .commit = git_commit(), .libraries = parts_of_run(devices_of(plan))},
             .describe_failure = fault_of,
             .on_hung = [&] { tell_what_was_measured(comparison); },
             .report_damage = tell_of_damage});
  // Progress goes to stderr, because stdout gets the comparison.
  const auto watch = [&](const train::PlannedTraining& training) -> std::unique_ptr<train::TrainingObserver> {
    auto display = std::make_unique<TrainingDisplay>(
        DisplayOptions{.quiet = flags.common.quiet, .progress = flags.common.progress, .only_progress = true}, stop);
    display->on_start(training.experiment, training.directory.string());
    return display;
  };
  int signal = 0;
  try {
    signal = comparison.run(watch, stop);
  } catch (const Error&) {
    tell_what_was_measured(comparison);
    throw;
  }
  report.runs = figures_of(comparison, flags);
  report.finished = signal == 0;
  report.unfinished = comparison.unfinished();
  if (report.finished)
    for (const auto& assertion : assertions) report.assertions.push_back(assertion.check(report.runs));
  tell(report, flags);
  if (signal != 0) {
    const std::string left = report.runs.empty() ? "nothing was measured"
                                                 : fmt::format("the results so far are in {}; --overwrite begins again",
                                                               flags.out().string());
    throw Error(exit_code_of_signal(signal), fmt::format("stopped by {}; {}", signal_name(signal), left));
  }
  std::vector<std::string> failed;
  for (const auto& outcome : report.assertions)
    if (!outcome.holds) failed.push_back("--assert " + outcome.sentence);
  if (!failed.empty()) throw Error(ExitCode::assertion_failed, failed);
  return 0;
}

}  // namespace

Run add_compare_command(CLI::App& command) {
  auto flags = std::make_shared<CompareFlags>();
  flags->common
      .add_to(command, {.out = "the folder of the runs, each in one of its own; runs/compare-<name> by default",
                        .progress = kProgressHelp})
      ->required(false);
  command.add_option("configs", flags->configs, "experiments to compare: YAML files, or names of some in configs/")
      ->type_name("FILE");
  command
      .add_option("--strategies", flags->strategies,
                  "with --config: strategies to train it under, 'ddp,{name: ddp, overlap: false, as: plain}'")
      ->type_name("LIST");
  command
      .add_option("--assert", flags->assertions,
                  "exit with 1 unless this holds: METRIC[(RUN)] OP NUMBER, speedup(ddp)>=1.5; may be repeated")
      ->type_name("EXPRESSION")
      ->expected(1)
      ->take_all()
      ->allow_extra_args(false);
  command
      .add_option("--target", flags->target,
                  "print the training seconds until a test accuracy; the metric seconds_to_target of --assert")
      ->check(CLI::Range(0.0, 1.0))
      ->check(refuse_nan)
      ->type_name("ACCURACY");
  command
      .add_option("--repeat", flags->repetitions,
                  "train each run N times, with seeds that follow each other, and test what differs")
      ->check(CLI::Range(int64_t{1}, int64_t{1000}))
      ->type_name("N");
  command.add_flag("--overwrite", flags->overwrite, "replace an earlier comparison with all of its runs");
  add_fault_flag(command, flags->faults,
                 "make this rank late in every run that has it: slow:rank=1,ms=20; may be repeated");
  return [flags] { return compare_with(*flags); };
}

}  // namespace dptrain::app
