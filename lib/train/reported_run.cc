#include "train/reported_run.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "base/display_width.h"
#include "base/html_text.h"
#include "train/curve_chart.h"

namespace dptrain::train {
namespace {

constexpr int kWidestDifference = 90;

/// Whether the key adds nothing: the label already shows the name, and devices follow from the strategy.
bool follows_from_others(const DifferingKey& key, const std::vector<DifferingKey>& all) {
  const bool strategies_differ = std::ranges::find(all, "strategy", &DifferingKey::key) != all.end();
  return key.key == "name" || (strategies_differ && (key.key == "devices" || key.key == "threads"));
}

std::string difference_of(size_t run, const std::vector<DifferingKey>& keys) {
  std::vector<std::string> parts;
  for (const DifferingKey& key : keys)
    if (key.values[run] != "-" && !follows_from_others(key, keys))
      parts.push_back(fmt::format("{} {}", key.key.substr(key.key.rfind('.') + 1), key.values[run]));
  const std::string all = fmt::format("{}", fmt::join(parts, ", "));
  if (display_width(all) <= kWidestDifference) return all;
  return fmt::format("{}…", display_prefix(all, kWidestDifference - 1));
}

bool have_same_devices(const EpochMetrics& a, const EpochMetrics& b) {
  return std::ranges::equal(a.devices, b.devices, [](const DeviceMetrics& left, const DeviceMetrics& right) {
    return left.device == right.device && left.host == right.host;
  });
}

std::span<const EpochRecord> last_on_one_list(const std::vector<EpochRecord>& epochs) {
  size_t first = epochs.size();
  while (first > 0 && have_same_devices(epochs[first - 1].cost, epochs.back().cost)) --first;
  return std::span(epochs).subspan(first);
}

std::optional<TrainingFigures> figures_of_epochs(std::span<const EpochRecord> epochs) {
  if (epochs.empty()) return std::nullopt;
  std::vector<EpochMetrics> costs;
  for (const EpochRecord& epoch : epochs) costs.push_back(epoch.cost);
  return training_figures(costs);
}

/// A criterion for ordering runs: the lowest value is the best.
struct Merit {
  const char* words;
  std::optional<double> (*of)(const RunState& run);
};

/// The criterion for these runs. If there is a validation, the test split must not decide.
const Merit& merit_of(const std::vector<ReportedRun>& runs) {
  static constexpr Merit kMerits[] = {
      {"the lowest validation loss", [](const RunState& run) { return run.validation_loss; }},
      {"the highest test accuracy",
       [](const RunState& run) { return run.accuracy ? std::optional(-*run.accuracy) : std::nullopt; }},
      {"the lowest training loss", [](const RunState& run) { return run.train_loss; }}};
  for (const Merit& merit : kMerits)
    if (std::ranges::any_of(runs, [&](const ReportedRun& run) { return merit.of(run.state).has_value(); }))
      return merit;
  return kMerits[2];
}

/// Gives looks to all runs in their order, or, if there are too few looks, to the best runs.
void give_looks(std::vector<ReportedRun>& runs) {
  std::vector<size_t> order;
  for (size_t i = 0; i < runs.size(); ++i)
    if (!runs[i].record.epochs.empty()) order.push_back(i);
  if (order.size() > kCurveLooks) {
    const Merit& merit = merit_of(runs);
    std::ranges::stable_sort(order, {}, [&](size_t run) {
      return merit.of(runs[run].state).value_or(std::numeric_limits<double>::infinity());
    });
    order.resize(kCurveLooks);
  }
  for (size_t look = 0; look < order.size(); ++look) runs[order[look]].look = look;
}

}  // namespace

std::string ReportedRun::name() const { return difference.empty() ? label : fmt::format("{} ({})", label, difference); }

std::vector<ReportedRun> reported_runs(const RunTable& table, const std::vector<RunRecord>& records) {
  std::vector<ReportedRun> runs;
  for (size_t i = 0; i < records.size(); ++i) {
    const auto epochs = last_on_one_list(records[i].epochs);
    runs.push_back({.state = table.runs()[i],
                    .record = records[i],
                    .label = table.labels()[i],
                    .difference = difference_of(i, table.differences()),
                    .anchor = fmt::format("run-{}", i + 1),
                    .figures = figures_of_epochs(epochs),
                    .on_its_devices = epochs});
  }
  give_looks(runs);
  return runs;
}

std::string chosen_by(const std::vector<ReportedRun>& runs) { return merit_of(runs).words; }

std::string link_to(const ReportedRun& run) {
  return fmt::format("<a href=\"#{}\">{}</a>", run.anchor, html_text(run.label));
}

}  // namespace dptrain::train
