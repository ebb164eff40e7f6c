#include "train/report_details.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <utility>

#include "base/counted.h"
#include "base/digit_groups.h"
#include "base/html_table.h"
#include "base/html_text.h"
#include "base/signal_name.h"
#include "train/noise_advice.h"
#include "train/straggler.h"

namespace dptrain::train {
namespace {

constexpr int kExitOfSignal = 128;

/// "3 of 10 epochs", if the configuration says how many there are to be.
std::string progress_of(const RunState& run) {
  for (const auto& [key, done] : {std::pair("epochs", run.epochs), {"steps", run.steps}})
    if (const ConfigNode* planned = run.config.find(key);
        planned != nullptr && planned->kind == ConfigNode::Kind::scalar)
      return fmt::format("{} of {} {}", done, planned->scalar, key);
  return counted(static_cast<size_t>(run.epochs), "epoch");
}

/// How the run ended, if it didn't end normally, and what stood out.
std::vector<std::string> notes_of(const ReportedRun& run) {
  std::vector<std::string> notes;
  if (run.goes_on())
    notes.push_back(fmt::format(
        "{} after {}.", run.state.is_running ? "It is running," : "It was killed, or is running on another host,",
        progress_of(run.state)));
  else if (run.state.exit && *run.state.exit > kExitOfSignal)
    notes.push_back(fmt::format("It was stopped by {} after {}.", signal_name(*run.state.exit - kExitOfSignal),
                                progress_of(run.state)));
  else if (run.state.exit && *run.state.exit != 0)
    notes.push_back(fmt::format("It ended with {} after {}.", *run.state.exit, progress_of(run.state)));
  else if (run.state.has_failed && !run.record.fault)
    notes.push_back(fmt::format("It failed after {}.", progress_of(run.state)));
  if (const auto& ending = run.record.ending) {
    if (ending->stopped_early) notes.emplace_back("It stopped early, as its validation no longer improved.");
    if (ending->best_epoch) notes.push_back(fmt::format("Its best epoch is {}.", *ending->best_epoch));
  }
  int64_t skipped = 0;
  for (const EpochRecord& epoch : run.record.epochs) skipped += epoch.cost.skipped_steps;
  if (skipped > 0)
    notes.push_back(
        fmt::format("{} steps were skipped, as gradients overflowed in fp16.", digit_groups(double(skipped))));
  if (run.record.epochs.empty()) return notes;
  const EpochMetrics& last = run.record.epochs.back().cost;
  if (const auto slow = straggler_advice(last, /*may_split=*/false))
    notes.push_back(fmt::format("A straggler: {}.", *slow));
  if (const auto noise = noise_advice(last)) notes.push_back(fmt::format("In its last epoch {}.", *noise));
  return notes;
}

std::string fault_of(const ReportedRun& run) {
  const auto& fault = run.record.fault;
  if (!fault) return "";
  return fmt::format(
      "<p class=\"fault\"><strong>It failed with {} after {}:</strong> {}</p>\n<p>Resume it with <code>{}</code></p>\n",
      fault->exit, html_text(progress_of(run.state)), html_text(fault->cause), html_text(fault->resume));
}

/// "cpu:0, cpu:1 on a; cpu:0 on b"
std::string devices_by_host(const std::vector<DeviceMetrics>& devices) {
  std::vector<std::pair<std::string, std::vector<std::string>>> hosts;
  for (const DeviceMetrics& device : devices) {
    if (hosts.empty() || hosts.back().first != device.host) hosts.push_back({device.host, {}});
    hosts.back().second.push_back(device.device);
  }
  std::vector<std::string> texts;
  for (const auto& [host, names] : hosts) texts.push_back(fmt::format("{} on {}", fmt::join(names, ", "), host));
  return fmt::format("{}", fmt::join(texts, "; "));
}

std::string facts_of(const ReportedRun& run) {
  std::vector<std::pair<std::string, std::string>> facts = {{"directory", run.state.directory.string()}};
  if (const ConfigNode* strategy = run.state.config.find("strategy")) facts.emplace_back("strategy", strategy->text());
  facts.emplace_back("done", progress_of(run.state));
  if (!run.record.epochs.empty()) facts.emplace_back("devices", devices_by_host(run.record.epochs.back().cost.devices));
  if (run.record.ending)
    facts.insert(facts.end(), run.record.ending->environment.begin(), run.record.ending->environment.end());
  if (!run.state.weights_hash.empty()) facts.emplace_back("weights", run.state.weights_hash);
  std::string list;
  for (const auto& [name, value] : facts)
    list += fmt::format("<dt>{}</dt><dd>{}</dd>\n", html_text(name), html_text(value));
  return "<dl>\n" + list + "</dl>\n";
}

const char* verdict_text(TrialVerdict verdict) {
  switch (verdict) {
    case TrialVerdict::chosen: return "chosen";
    case TrialVerdict::within_noise: return "as fast, within noise";
    case TrialVerdict::slower: return "slower";
    case TrialVerdict::failed: return "failed";
    case TrialVerdict::not_tried: break;
  }
  return "not tried";
}

/// The trials of `strategy: auto`.
std::string trials_of(const ReportedRun& run) {
  if (!run.record.ending || !run.record.ending->choice || run.record.ending->choice->trials.empty()) return "";
  std::vector<TableColumn> columns = {{.header = "strategy", .cells = {}, .left_aligned = true},
                                      {.header = "split", .cells = {}, .left_aligned = true},
                                      {.header = "verdict", .cells = {}, .left_aligned = true},
                                      {.header = "ms/step", .cells = {}},
                                      {.header = "samples/s", .cells = {}},
                                      {.header = "exposed ms", .cells = {}},
                                      {.header = "MB/step", .cells = {}},
                                      {.header = "peak MB", .cells = {}},
                                      {.header = "why", .cells = {}, .left_aligned = true}};
  for (const StrategyTrial& trial : run.record.ending->choice->trials) {
    std::vector<std::string> cells = {trial.strategy, trial.split, verdict_text(trial.verdict)};
    if (const auto& figures = trial.figures) {
      cells.push_back(fmt::format("{:.2f}", 1e3 * figures->seconds_per_step));
      cells.push_back(digit_groups(figures->samples_per_s));
      cells.push_back(fmt::format("{:.2f}", 1e3 * figures->exposed_comm_s));
      cells.push_back(fmt::format("{:.1f}", static_cast<double>(figures->bytes_per_step) / 1e6));
      cells.push_back(fmt::format("{:.1f}", static_cast<double>(figures->peak_bytes) / 1e6));
    } else {
      cells.insert(cells.end(), 5, "-");
    }
    cells.push_back(trial.reason);
    add_row(columns, cells);
  }
  std::vector<HtmlColumn> shown;
  for (const TableColumn& column : columns) shown.push_back(html_column(column));
  return "<h4>Trials of strategy: auto</h4>\n" + html_table(shown, "Trials of strategy: auto of " + run.label);
}

}  // namespace

std::string report_details(const ReportedRun& run) {
  std::string notes = html_text(fmt::format("{}", fmt::join(notes_of(run), " ")));
  if (!notes.empty()) notes = "<p>" + notes + "</p>\n";
  return fmt::format(
      "<details>\n<summary><b>{}</b> <span class=\"state {}\">{}</span> <span class=\"quiet\">{}</span></summary>\n"
      "<div class=\"of-run\" id=\"{}\">\n{}{}{}{}<h4>Configuration</h4>\n<pre tabindex=\"0\">{}</pre>\n</div>\n"
      "</details>\n",
      html_text(run.label), run.state.state(), run.state.state(), html_text(run.difference), run.anchor, fault_of(run),
      notes, facts_of(run), trials_of(run), html_text(run.record.config));
}

}  // namespace dptrain::train
