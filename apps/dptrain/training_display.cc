#include "training_display.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "output.h"

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

/// Digits in groups of three.
std::string grouped(double value) {
  std::string digits = fmt::format("{:.0f}", value);
  for (auto at = static_cast<std::ptrdiff_t>(digits.size()) - 3; at > 0; at -= 3)
    digits.insert(static_cast<size_t>(at), ",");
  return digits;
}

/// Ten characters wide; a loss that runs away keeps to them.
std::string loss_text(double loss) {
  return loss < 1e5 ? fmt::format("{:10.4f}", loss) : fmt::format("{:10.3e}", loss);
}

/// "1 epoch", "10 epochs"
std::string counted(int64_t count, const char* what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

std::string megabytes(int64_t bytes) { return fmt::format("{:.1f} MB", static_cast<double>(bytes) / 1e6); }

/// As many of the fields, the most important first, as fit the width.
std::string fitted(const std::vector<std::string>& fields, int width) {
  std::string line;
  for (const std::string& field : fields) {
    const std::string longer = line.empty() ? field : line + "  " + field;
    if (static_cast<int>(longer.size()) >= width) break;
    line = longer;
  }
  return line;
}

/// Processes of a job whose devices are listed.
constexpr int kListedProcesses = 4;

/// "cpu:0, cpu:1"; of a job "a: cpu:0, cpu:1 and b: cpu:0".
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

}  // namespace

TrainingDisplay::TrainingDisplay(const DisplayOptions& options, train::StopSignal& stop)
    : options_(options), stop_(stop), lines_(Lines::plain) {
  if (options.quiet || options.progress == "none")
    lines_ = Lines::none;
  else if (options.progress == "auto" && ::isatty(STDERR_FILENO) == 1)
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
  say(fmt::format("{}: {} on {}, {} over {}, batch {}, learning rate {}; writing {}", experiment.name,
                  experiment.model.name, experiment.dataset.name, experiment.strategy.name, devices_text(experiment),
                  experiment.batch_size, experiment.learning_rate, run_directory));
}

void TrainingDisplay::on_resume(const train::ResumePoint& from, const train::Experiment& experiment,
                                const std::string& config_hash) {
  const train::Checkpoint& checkpoint = from.checkpoint;
  std::string line = fmt::format("resumed after step {} of {}", checkpoint.position.step, from.folder.string());
  const std::string devices = fmt::format("{}", fmt::join(experiment.device_names(), ", "));
  if (const auto before = fmt::format("{}", fmt::join(checkpoint.devices, ", ")); before != devices)
    line += fmt::format("; trained on {} before, on {} now", before, devices);
  else if (checkpoint.config_hash != config_hash)
    line += "; the configuration has changed since";
  say(line);
}

void TrainingDisplay::on_finished_before(int64_t step, const std::string& run_directory) {
  say(fmt::format("{} is finished: all {} steps were made; nothing was changed", run_directory, step));
}

void TrainingDisplay::on_trial(const std::string& strategy, size_t number, size_t count) {
  if (is_time_for_line()) show_progress(fmt::format("trial {} of {}: {}", number, count, strategy));
}

void TrainingDisplay::on_choice(const train::StrategyChoice& choice) {
  say(fmt::format("strategy: auto is {}{}, of {}; summary.json says why", choice.strategy,
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
  // Before the first step is done there is nothing to tell of.
  if (progress.samples_done > 0) {
    fields.push_back(fmt::format("loss {:.4f}", progress.mean_loss));
    fields.push_back(fmt::format("{} left", clock_text(progress.seconds_left)));
    fields.push_back(fmt::format("{} samples/s", grouped(rate)));
  }
  show_progress(fitted(fields, lines_ == Lines::live ? terminal_width(STDERR_FILENO) : kPlainWidth));
}

void TrainingDisplay::on_epoch(const train::EpochMetrics& metrics) {
  if (options_.only_progress) return;
  if (options_.json) {
    clear_line();
    write_or_stop(metrics.json() + "\n");
  }
  if (options_.quiet || options_.json) return;
  if (!header_shown_) say("  epoch  train loss  accuracy  test loss  accuracy    seconds   samples/s");
  header_shown_ = true;
  const auto& train = metrics.train;
  const std::string test = metrics.test ? fmt::format("{} {:6.2f} %", loss_text(metrics.test->score.mean_loss()),
                                                      100 * metrics.test->score.accuracy())
                                        : fmt::format("{:>10} {:>8}", "-", "-");
  // Of a training that is so many steps long, a resumed one may begin with an evaluation, before its first step.
  const std::string epoch = epochs_ > 0 ? fmt::format("{}/{}", metrics.epoch, epochs_) : std::to_string(metrics.epoch);
  say(fmt::format("{:>7}  {}  {:6.2f} %  {}  {:9.2f}  {:>10}", epoch, loss_text(train.score.mean_loss()),
                  100 * train.score.accuracy(), test, train.seconds, grouped(train.samples_per_s())));
}

void TrainingDisplay::on_warning(const std::string& text) {
  clear_line();
  write_message(fmt::format("dptrain: warning: {}\n", text));
}

void TrainingDisplay::on_finish(const train::TrainingOutcome& outcome, const std::string& run_directory) {
  if (outcome.last_epoch) {
    const train::EpochMetrics& last = *outcome.last_epoch;
    std::vector<std::string> names;
    for (const auto& device : last.devices)
      names.push_back(is_of_job_ ? fmt::format("{} on {}", device.device, device.host) : device.device);
    size_t width = 8;
    for (const std::string& name : names) width = std::max(width, name.size());
    say(fmt::format("\n  {:<{}}  samples    busy  peak memory  (last epoch)", "device", width));
    for (size_t i = 0; i < names.size(); ++i) {
      const auto& device = last.devices[i];
      say(fmt::format("  {:<{}}  {:>7}  {:4.0f} %  {:>11}", names[i], width,
                      grouped(static_cast<double>(device.samples)), 100 * device.busy, megabytes(device.peak_bytes)));
    }
    const auto& time = last.time;
    say(
        fmt::format("  time: compute {:.2f} s, exposed communication {:.2f} s, optimizer {:.2f} s,\n"
                    "        waiting for data {:.2f} s, other {:.2f} s",
                    time.compute_s, time.exposed_comm_s, time.optimizer_s, time.data_wait_s, time.other_s));
    if (last.pipeline && last.pipeline->bubble)
      say(fmt::format("  bubble: stages waited for each other {:.0f} % of the time, by the schedule {:.0f} %",
                      100 * *last.pipeline->bubble, 100 * last.pipeline->predicted_bubble));
  }
  say(fmt::format("\n{}, {} in {:.1f} s; weights {}\n{}: metrics.jsonl, summary.json, {}",
                  counted(outcome.epochs, "epoch"), counted(outcome.steps, "step"), outcome.seconds,
                  outcome.weights_hash.substr(0, 16), run_directory,
                  outcome.weights.lexically_relative(run_directory).string()));
}

}  // namespace dptrain::app
