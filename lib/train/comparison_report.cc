#include "train/comparison_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/text_table.h"
#include "train/fault_spec.h"
#include "train/lost_seconds.h"

namespace dptrain::train {
namespace {

constexpr size_t kShownHashDigits = 12;

/// "1 cpu", "2 cuda + 1 cpu": the number of devices of each kind, in the order of the list.
std::string device_counts(const std::vector<std::string>& devices) {
  std::vector<std::pair<std::string, int>> counts;
  for (const std::string& device : devices) {
    const std::string kind = device.substr(0, device.find(':'));
    const auto found = std::ranges::find(counts, kind, &std::pair<std::string, int>::first);
    if (found == counts.end())
      counts.emplace_back(kind, 1);
    else
      ++found->second;
  }
  std::vector<std::string> parts;
  for (const auto& [kind, count] : counts) parts.push_back(fmt::format("{} {}", count, kind));
  return fmt::format("{}", fmt::join(parts, " + "));
}

std::string megabytes(double bytes) { return fmt::format("{:.1f}", bytes / 1e6); }

/// "1.23", or with repetitions "1.23 ± 0.04".
std::string with_deviation(const Spread& spread, size_t values, double scale, int digits) {
  const std::string mean = fmt::format("{:.{}f}", spread.mean * scale, digits);
  return values < 2 ? mean : fmt::format("{} ± {:.{}f}", mean, spread.deviation * scale, digits);
}

std::string accuracy_text(const RunFigures& run) {
  const auto spread = run.accuracies();
  return spread ? with_deviation(*spread, run.trainings.size(), 100, 2) : "-";
}

/// "12.30", "12.30 ± 0.40", or "12.30 (2 of 3)" if only some trainings reached the target.
std::string target_text(const RunFigures& run) {
  const std::vector<double> seconds = run.seconds_to_target();
  if (seconds.empty()) return "-";
  const std::string text = with_deviation(spread_of(seconds), seconds.size(), 1, 2);
  if (seconds.size() == run.trainings.size()) return text;
  return fmt::format("{} ({} of {})", text, seconds.size(), run.trainings.size());
}

std::vector<TableColumn> columns_of(const std::vector<RunFigures>& runs) {
  std::vector<TableColumn> columns;
  const auto add = [&](const std::string& header, const std::function<std::string(const RunFigures&)>& cell,
                       bool left) {
    TableColumn column{.header = header, .cells = {}, .left_aligned = left};
    for (const RunFigures& run : runs) column.cells.push_back(cell(run));
    columns.push_back(std::move(column));
  };
  const RunFigures& first = runs.front();
  add(
      "run", [](const RunFigures& run) { return run.run; }, true);
  add(
      "strategy", [](const RunFigures& run) { return run.strategy; }, true);
  add(
      "devices", [](const RunFigures& run) { return device_counts(run.devices); }, true);
  add(
      "s/epoch", [](const RunFigures& run) { return with_deviation(run.seconds(), run.trainings.size(), 1, 3); },
      false);
  add(
      "samples/s", [](const RunFigures& run) { return fmt::format("{:.0f}", run.samples_per_s()); }, false);
  add(
      "speed-up", [&](const RunFigures& run) { return fmt::format("{:.2f}", speedup(first, run)); }, false);
  add(
      "efficiency", [&](const RunFigures& run) { return fmt::format("{:.2f}", efficiency(first, run)); }, false);
  add("accuracy %", accuracy_text, false);
  if (first.target) add(fmt::format("s to {:g} %", 100 * *first.target), target_text, false);
  add(
      "peak MB", [](const RunFigures& run) { return megabytes(static_cast<double>(run.peak_bytes())); }, false);
  add(
      "imbalance", [](const RunFigures& run) { return fmt::format("{:.2f}", run.memory_imbalance()); }, false);
  add(
      "MB sent", [](const RunFigures& run) { return megabytes(run.comm_bytes()); }, false);
  add(
      "exposed s", [](const RunFigures& run) { return fmt::format("{:.3f}", run.exposed_comm_s()); }, false);
  add(
      "weights", [](const RunFigures& run) { return run.trainings.front().weights_hash.substr(0, kShownHashDigits); },
      true);
  return columns;
}

/// Seconds with a sign, but never -0.000.
std::string signed_seconds(double seconds) {
  return fmt::format("{:+.3f}", std::abs(seconds) < 0.0005 ? 0.0 : seconds);
}

/// The parts of each run's seconds, except for the first run; no columns if nothing is known.
std::vector<TableColumn> lost_columns_of(const std::vector<RunFigures>& runs) {
  std::vector<TableColumn> columns;
  for (const char* header :
       {"run", "even share", "computing", "stragglers", "communication", "optimizer", "data", "other", "s/epoch"})
    columns.push_back({.header = header, .cells = {}, .left_aligned = columns.empty()});
  for (const RunFigures& run : runs) {
    const auto lost = &run == &runs.front() ? std::nullopt : lost_seconds(runs.front(), run);
    if (!lost) continue;
    add_row(columns, {run.run, fmt::format("{:.3f}", lost->even_share_s), signed_seconds(lost->compute_s),
                      signed_seconds(lost->straggler_s), signed_seconds(lost->communication_s),
                      signed_seconds(lost->optimizer_s), signed_seconds(lost->data_wait_s),
                      signed_seconds(lost->other_s), fmt::format("{:.3f}", run.seconds_per_epoch())});
  }
  return columns.front().cells.empty() ? std::vector<TableColumn>() : columns;
}

/// The heading of the table of lost seconds.
std::string of_the_lost(const RunFigures& first) {
  return fmt::format(
      "What s/epoch consists of: an even share of {}'s s/epoch by {}, and the seconds lost beyond that share:",
      first.run, first.power->kind == DeviceKind::cpu ? "cores" : "GPUs");
}

/// The epochs that the seconds are from, and the meaning of the table's shorter headers.
std::string of_the_seconds(const std::vector<RunFigures>& runs) {
  const auto several = [](const RunFigures& run) { return run.trainings.front().epochs > 1; };
  std::string sentence = std::ranges::any_of(runs, several)
                             ? "Seconds, samples/s, bytes sent and exposed communication are for one epoch: the median "
                               "over the epochs after the first"
                             : "Seconds, bytes sent and exposed communication are for the only epoch";
  if (const size_t repetitions = runs.front().trainings.size(); repetitions > 1)
    sentence +=
        fmt::format("; the mean of {} training runs with different seeds ± the standard deviation", repetitions);
  sentence +=
      ". Peak memory is that of the device that holds most; imbalance is its ratio to that of the device that holds "
      "least.";
  if (const auto target = runs.front().target)
    sentence += fmt::format(
        " Seconds to {:g} % are training seconds up to the end of the first epoch whose test accuracy is at least "
        "that.",
        100 * *target);
  const auto is_cut_otherwise = [&](const RunFigures& run) { return are_cut_otherwise(runs.front(), run); };
  if (std::ranges::any_of(runs, is_cut_otherwise))
    sentence +=
        " Epochs were cut short after different numbers of samples: speed-ups are for equal numbers of samples.";
  return sentence;
}

/// "Peak MB by device: single 5.1; ddp 3.9, 3.8."
std::string memory_by_device(const std::vector<RunFigures>& runs) {
  std::vector<std::string> of_runs;
  for (const RunFigures& run : runs) {
    std::vector<std::string> peaks;
    for (const int64_t bytes : run.device_peak_bytes()) peaks.push_back(megabytes(static_cast<double>(bytes)));
    of_runs.push_back(fmt::format("{} {}", run.run, fmt::join(peaks, ", ")));
  }
  return fmt::format("Peak MB by device: {}.", fmt::join(of_runs, "; "));
}

std::string of_the_difference(const std::string& what, double value, const PairedDifference& difference) {
  return difference.significant ? fmt::format("{} differs significantly, by {:+.3g} (paired t test, p = {:.2g})", what,
                                              value, difference.p_value)
                                : fmt::format("{}: no significant difference (p = {:.2g})", what, difference.p_value);
}

/// How significantly a repeated run differs from the first.
std::vector<std::string> significance(const RunFigures& first, const RunFigures& run) {
  std::vector<std::string> parts;
  if (const auto seconds = seconds_difference(first, run))
    parts.push_back(of_the_difference("seconds per epoch", seconds->mean, *seconds));
  if (const auto seconds = target_difference(first, run))
    parts.push_back(of_the_difference(fmt::format("seconds to {:g} %", 100 * *first.target), seconds->mean, *seconds));
  if (const auto accuracy = accuracy_difference(first, run))
    parts.push_back(of_the_difference("accuracy in %", 100 * accuracy->mean, *accuracy));
  if (parts.empty()) return {};
  return {fmt::format("{} against {}: {}.", run.run, first.run, fmt::join(parts, "; "))};
}

std::string of_the_fault(const parallel::InjectedFault& fault, const std::vector<RunFigures>& runs) {
  const auto suffers = [&](const RunFigures& run) { return static_cast<size_t>(fault.rank) < run.devices.size(); };
  std::vector<std::string> names;
  for (const RunFigures& run : runs)
    if (suffers(run)) names.push_back(run.run);
  if (names.empty()) names.emplace_back("none of these");
  const bool holds_it = runs.size() > 1 && suffers(runs.front());
  return fmt::format("Slowed on purpose, by --fault {}: {}{}.", fault_text(fault), fmt::join(names, ", "),
                     holds_it ? fmt::format("; even shares include what that costs {}", names.front()) : "");
}

}  // namespace

std::vector<std::string> ComparisonReport::sentences() const {
  std::vector<std::string> sentences = {of_the_seconds(runs), memory_by_device(runs)};
  for (const DifferingKey& key : differences)
    sentences.push_back(fmt::format("The runs differ in {}: {}.", key.key, fmt::join(key.values, ", ")));
  for (const parallel::InjectedFault& fault : faults) sentences.push_back(of_the_fault(fault, runs));
  for (const RunFigures& run : runs) {
    if (&run == &runs.front()) continue;
    for (std::string& sentence : significance(runs.front(), run)) sentences.push_back(std::move(sentence));
    if (const auto why = advice(runs.front(), run)) sentences.push_back(*why + ".");
  }
  for (const AssertionOutcome& outcome : assertions) sentences.push_back(outcome.sentence);
  if (!unfinished.empty())
    sentences.push_back(fmt::format("The comparison is not complete: {}.", fmt::join(unfinished, ", ")));
  return sentences;
}

std::string ComparisonReport::text(int width) const {
  std::string text = text_table(columns_of(runs), width);
  if (const auto lost = lost_columns_of(runs); !lost.empty())
    text += "\n" + wrapped(of_the_lost(runs.front()), width) + text_table(lost, width);
  for (const std::string& sentence : sentences()) text += "\n" + wrapped(sentence, width);
  return text;
}

std::string ComparisonReport::markdown() const {
  std::string text = markdown_table(columns_of(runs));
  if (const auto lost = lost_columns_of(runs); !lost.empty())
    text += "\n" + of_the_lost(runs.front()) + "\n\n" + markdown_table(lost);
  for (const std::string& sentence : sentences()) text += "\n" + sentence + "\n";
  return text;
}

}  // namespace dptrain::train
