#include "training_display.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <vector>

#include "base/counted.h"
#include "base/digit_groups.h"
#include "base/error.h"
#include "base/text_table.h"
#include "output.h"
#include "train/noise_advice.h"

namespace dptrain::app {
namespace {

constexpr double kSecondsBetweenLiveLines = 0.1;
constexpr double kSecondsBetweenPlainLines = 10;
constexpr int kPlainWidth = 200;

std::string clock_text(double seconds) {
  const auto whole = static_cast<int64_t>(seconds + 0.5);
  if (whole >= 3600) return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
  return fmt::format("{}:{:02}", whole / 60, whole % 60);
}

std::string megabytes(int64_t bytes) { return fmt::format("{:.1f} MB", static_cast<double>(bytes) / 1e6); }

/// As many of the fields as fit the width, which are ordered by importance.
std::string fitted(const std::vector<std::string>& fields, int width) {
  std::string line;
  for (const std::string& field : fields) {
    const std::string longer = line.empty() ? field : line + "  " + field;
    if (static_cast<int>(longer.size()) >= width) break;
    line = longer;
  }
  return line;
}

/// The most processes of a job whose devices are listed.
constexpr int kListedProcesses = 4;

/// "cpu:0, cpu:1"; in a job "a: cpu:0, cpu:1 and b: cpu:0".
std::string devices_text(const train::Experiment& experiment) {
  const std::vector<std::string> names = experiment.device_names();
  if (experiment.job == nullptr) return fmt::format("{}", fmt::join(names, ", "));
  const WorldShape& shape = experiment.job->ranks.shape;
  if (shape.processes() > kListedProcesses)
    return fmt::format("{} devices of {} processes", shape.ranks(), shape.processes());
  std::vector<std::string> processes;
  for (int p = 0; p < shape.processes(); ++p) {
    const RankRun own = shape.ranks_of(p);
    const std::vector<std::string> of_process(names.begin() + own.begin, names.begin() + own.end);
    processes.push_back(
        fmt::format("{}: {}", experiment.place(static_cast<size_t>(own.begin)).host, fmt::join(of_process, ", ")));
  }
  return fmt::format("{}", fmt::join(processes, " and "));
}

/// "64", "64 (32 per device)", "64 (48 + 16)": shows both numbers that other tools call the batch size.
std::string batch_text(const train::Experiment& experiment) {
  const std::string whole = std::to_string(experiment.batch_size);
  const auto devices = static_cast<int>(experiment.device_names().size());
  const parallel::StrategySpec& strategy = experiment.strategy;
  if (devices == 1 || experiment.split.measured || strategy.is_pipeline() || strategy.trial_steps) return whole;
  const BatchSplit split = experiment.split.weights.value_or(BatchSplit::even(devices));
  std::vector<int64_t> parts;
  for (int device = 0; device < devices; ++device) {
    const auto [begin, end] = split.range(device, experiment.batch_size);
    parts.push_back(end - begin);
  }
  const auto [least, most] = std::ranges::minmax(parts);
  if (least == most) return fmt::format("{} ({} per device)", whole, least);
  if (split.is_even()) return fmt::format("{} ({} or {} per device)", whole, least, most);
  return fmt::format("{} ({})", whole, fmt::join(parts, " + "));
}

/// The cost of an epoch on each device, and the parts of its seconds, in lines of at most `width` characters if
/// possible. Begins with a newline and ends without one.
std::string costs_text(const train::EpochMetrics& epoch, bool is_of_job, int width) {
  TableColumn devices{.header = "device (last epoch)", .cells = {}, .left_aligned = true};
  TableColumn samples{.header = "samples", .cells = {}}, busy{.header = "busy", .cells = {}},
      peaks{.header = "peak memory", .cells = {}};
  std::vector<std::string> names;
  for (const auto& device : epoch.devices)
    names.push_back(is_of_job ? fmt::format("{} on {}", device.device, device.host) : device.device);
  for (size_t rank = 0; rank < names.size(); ++rank) {
    const auto& device = epoch.devices[rank];
    const bool is_unique = std::ranges::count(names, names[rank]) == 1;
    devices.cells.push_back(is_unique ? names[rank] : fmt::format("{}, rank {}", names[rank], rank));
    samples.cells.push_back(digit_groups(static_cast<double>(device.samples)));
    busy.cells.push_back(fmt::format("{:.0f} %", 100 * device.busy));
    peaks.cells.push_back(megabytes(device.peak_bytes));
  }
  std::vector<TableColumn> columns = {devices, samples, busy, peaks};
  // A pipeline's samples go through all of its devices and are counted only on the last, so the column is left out.
  if (epoch.pipeline) columns.erase(columns.begin() + 1);
  std::string text = "\n" + text_table(columns, width);
  const auto seconds = [](const char* of, double s) { return fmt::format("{} {:.2f} s", of, s); };
  const auto& time = epoch.time;
  text += wrapped_list("time: ",
                       {seconds("compute", time.compute_s), seconds("exposed communication", time.exposed_comm_s),
                        seconds("optimizer", time.optimizer_s), seconds("waiting for data", time.data_wait_s),
                        seconds("other", time.other_s)},
                       width);
  if (epoch.pipeline && epoch.pipeline->bubble)
    text +=
        wrapped_list("bubble: ",
                     {fmt::format("devices waited for each other {:.0f} % of the time", 100 * *epoch.pipeline->bubble),
                      fmt::format("by the schedule {:.0f} %", 100 * epoch.pipeline->predicted_bubble)},
                     width);
  text.pop_back();
  return text;
}

/// Names the best epoch, and says if the training stopped early.
std::string best_text(const train::BestEpoch& best, const train::TrainingOutcome& outcome) {
  const std::string early =
      outcome.stopped_early ? fmt::format("stopped early after epoch {}; ", outcome.epochs) : std::string();
  return fmt::format("{}best epoch {}: validation loss {:.4f}, accuracy {:.2f} %; {}", early, best.epoch, best.loss,
                     100 * best.accuracy, outcome.best_is_linked ? "checkpoints/best" : "its checkpoint was removed");
}

/// Whether the terminal shows escape sequences as text.
bool is_dumb_terminal() {
  const char* name = std::getenv("TERM");
  return name != nullptr && std::string_view(name) == "dumb";
}

}  // namespace

TrainingDisplay::TrainingDisplay(const DisplayOptions& options, train::StopSignal& stop)
    : options_(options), stop_(stop), lines_(Lines::plain) {
  if (options.quiet || options.progress == "none")
    lines_ = Lines::none;
  else if (options.progress == "auto" && ::isatty(STDERR_FILENO) == 1 && !is_dumb_terminal())
    lines_ = Lines::live;
  last_shown_ = Clock::now();
}

TrainingDisplay::~TrainingDisplay() { clear_line(); }

void TrainingDisplay::say(const std::string& text) {
  if (options_.quiet) return;
  clear_line();
  options_.json || options_.only_progress ? write_message(text + "\n") : write_or_stop(text + "\n");
}

void TrainingDisplay::write_or_stop(const std::string& text) {
  if (stop_.load() == SIGPIPE) return;
  try {
    write_output(text);
  } catch (const Error&) {
    int none = 0;
    stop_.compare_exchange_strong(none, SIGPIPE);
  }
}

bool TrainingDisplay::is_time_for_line() {
  if (lines_ == Lines::none) return false;
  const double between_s = lines_ == Lines::live ? kSecondsBetweenLiveLines : kSecondsBetweenPlainLines;
  if (seconds_since(last_shown_) < between_s) return false;
  last_shown_ = Clock::now();
  return true;
}

void TrainingDisplay::show_progress(const std::string& line) {
  lines_ == Lines::live ? show_line(line) : write_message(line + "\n");
}

void TrainingDisplay::show_progress(const std::vector<std::string>& fields) {
  show_progress(fitted(fields, lines_ == Lines::live ? terminal_width(STDERR_FILENO) : kPlainWidth));
}

void TrainingDisplay::show_line(const std::string& line) {
  write_message("\r\x1b[K" + line);
  line_shown_ = true;
}

void TrainingDisplay::clear_line() {
  if (!line_shown_) return;
  write_message("\r\x1b[K");
  line_shown_ = false;
}

void TrainingDisplay::on_start(const train::Experiment& experiment, const std::string& run_directory) {
  epochs_ = experiment.epochs.value_or(0);
  is_of_job_ = experiment.job != nullptr;
  has_validation_ = experiment.validation.samples > 0;
  may_split_ = experiment.shards == 0 && !experiment.split.measured;
  say(fmt::format("{}: {} on {}, {} over {}, batch {}, learning rate {:.6g}; writing {}", experiment.name,
                  experiment.model.name, experiment.dataset.name, experiment.strategy.name, devices_text(experiment),
                  batch_text(experiment), experiment.learning_rate, run_directory));
}

void TrainingDisplay::on_resume(const train::ResumePoint& from, const train::Experiment& experiment,
                                const std::string& changes, bool is_over) {
  const train::Checkpoint& checkpoint = from.checkpoint;
  resumed_at_ = checkpoint.position.step;
  std::string line = fmt::format("resumed after step {} of {}", checkpoint.position.step, from.folder.string());
  const std::string devices = fmt::format("{}", fmt::join(experiment.device_names(), ", "));
  if (const auto before = fmt::format("{}", fmt::join(checkpoint.devices, ", ")); before != devices)
    line += fmt::format("; trained on {} before, on {} now", before, devices);
  if (!changes.empty()) line += "; changed since: " + changes;
  say(line);
  if (is_over) say("nothing is left to train: all steps were made before");
}

void TrainingDisplay::on_finished_before(const train::FinishedTraining& finished, const std::string& run_directory) {
  say(finished.stopped_early
          ? fmt::format("{} is finished: it was stopped early after {} steps; nothing was changed", run_directory,
                        finished.steps)
          : fmt::format("{} is finished: all {} steps were made; nothing was changed", run_directory, finished.steps));
}

void TrainingDisplay::on_trial(const std::string& strategy, size_t number, size_t count) {
  if (is_time_for_line()) show_progress(fmt::format("trial {} of {}: {}", number, count, strategy));
}

void TrainingDisplay::on_choice(const train::StrategyChoice& choice) {
  say(fmt::format("strategy: auto has chosen {}{} from {}; summary.json says why", choice.strategy,
                  choice.split == "auto" ? " with split: auto" : "",
                  counted(static_cast<int64_t>(choice.trials.size()), "candidate")));
}

void TrainingDisplay::on_step(const Progress& progress) {
  epochs_ = progress.epochs;
  if (!is_time_for_line()) return;
  const double share = static_cast<double>(progress.samples_done) / static_cast<double>(progress.samples_of_epoch);
  const double rate = static_cast<double>(progress.samples_done) / std::max(progress.seconds, 1e-9);
  std::vector<std::string> fields = {fmt::format("epoch {}/{}", progress.epoch, progress.epochs),
                                     fmt::format("{:3.0f} %", 100 * share)};
  // Before the first step has ended there is nothing to show.
  if (progress.samples_done > 0) {
    fields.push_back(fmt::format("loss {:.4f}", progress.mean_loss));
    fields.push_back(fmt::format("{} left", clock_text(progress.seconds_left)));
    fields.push_back(fmt::format("{} samples/s", digit_groups(rate)));
  }
  show_progress(fields);
}

void TrainingDisplay::on_evaluation(const EvaluationProgress& progress) {
  // Before the first block has ended the speed isn't known.
  if (progress.samples_done == 0 || !is_time_for_line()) return;
  const auto done = static_cast<double>(progress.samples_done), all = static_cast<double>(progress.samples);
  show_progress({fmt::format("epoch {}/{}", progress.epoch, progress.epochs),
                 fmt::format("evaluating {:3.0f} %", 100 * done / all),
                 fmt::format("{} left of it", clock_text(progress.seconds * (all - done) / done))});
}

void TrainingDisplay::on_epoch(const train::EpochMetrics& metrics) {
  if (options_.only_progress) return;
  if (options_.json) {
    clear_line();
    write_or_stop(metrics.json() + "\n");
  }
  if (options_.quiet || options_.json) return;
  if (!table_) {
    table_.emplace(epochs_, terminal_width(STDOUT_FILENO, kAnyWidth), has_validation_);
    say(table_->header());
  }
  say(table_->row(metrics));
}

void TrainingDisplay::on_reduced_rate(double rate) {
  if (!options_.only_progress) say(fmt::format("validation no longer improves: learning rate reduced to {:.4g}", rate));
}

void TrainingDisplay::on_warning(const std::string& text) {
  clear_line();
  write_message(fmt::format("dptrain: warning: {}\n", text));
}

void TrainingDisplay::on_finish(const train::TrainingOutcome& outcome, const std::string& run_directory) {
  if (outcome.last_epoch) {
    const int width = terminal_width(options_.json || options_.only_progress ? STDERR_FILENO : STDOUT_FILENO);
    say(costs_text(*outcome.last_epoch, is_of_job_, width));
    const bool may_split = may_split_ && !outcome.last_epoch->pipeline;
    if (const auto advice = train::straggler_advice(*outcome.last_epoch, may_split)) say(*advice);
    if (const auto noise = train::noise_advice(*outcome.last_epoch)) say("in the last epoch " + *noise);
  }
  if (outcome.best) say("\n" + best_text(*outcome.best, outcome));
  std::error_code none;
  const auto if_there = [&](const char* file) {
    return std::filesystem::exists(std::filesystem::path(run_directory) / file, none) ? std::string(file) + ", " : "";
  };
  // The seconds are only those of this start.
  const std::string now = resumed_at_ > 0 ? fmt::format(", {} of them now", outcome.steps - resumed_at_) : "";
  say(fmt::format("\n{}, {}{} in {:.1f} s; weights {}\n{}: {}summary.json, {}", counted(outcome.epochs, "epoch"),
                  counted(outcome.steps, "step"), now, outcome.seconds, outcome.weights_hash.substr(0, 16),
                  run_directory,
                  if_there("metrics.jsonl") + if_there("steps.jsonl") + if_there("trace.json") + if_there("tb"),
                  outcome.weights.lexically_relative(run_directory).string()));
}

}  // namespace dptrain::app
