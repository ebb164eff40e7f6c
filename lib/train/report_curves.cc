#include "train/report_curves.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <optional>

#include "base/counted.h"
#include "base/html_table.h"
#include "base/html_text.h"
#include "train/curve_chart.h"

namespace dptrain::train {
namespace {

/// Returns a number of an epoch; nothing if the epoch doesn't have it.
using EpochValue = std::optional<double> (*)(const EpochRecord& epoch);

struct CurveSubject {
  const char* title;
  CurveChart::Values values;
  EpochValue value;
};

template <std::optional<PassRecord> EpochRecord::*pass, double PassRecord::*number>
std::optional<double> of_pass(const EpochRecord& epoch) {
  return epoch.*pass ? std::optional((*(epoch.*pass)).*number) : std::nullopt;
}

constexpr CurveSubject kLossesAndAccuracies[] = {
    {"Training loss", CurveChart::Values::loss,
     [](const EpochRecord& epoch) { return std::optional(epoch.train.loss); }},
    {"Validation loss", CurveChart::Values::loss, of_pass<&EpochRecord::validation, &PassRecord::loss>},
    {"Test loss", CurveChart::Values::loss, of_pass<&EpochRecord::test, &PassRecord::loss>},
    {"Validation accuracy, %", CurveChart::Values::accuracy, of_pass<&EpochRecord::validation, &PassRecord::accuracy>},
    {"Test accuracy, %", CurveChart::Values::accuracy, of_pass<&EpochRecord::test, &PassRecord::accuracy>}};
constexpr CurveSubject kLearningRate = {
    "Learning rate", CurveChart::Values::learning_rate,
    [](const EpochRecord& epoch) { return std::optional(epoch.cost.learning_rate); }};

std::string chart_of(const std::vector<ReportedRun>& runs, const CurveSubject& subject, CurveChart::Across across) {
  CurveChart chart{.title = subject.title, .across = across, .values = subject.values, .curves = {}};
  for (const ReportedRun& run : runs) {
    Curve curve{.name = run.name(), .points = {}, .look = run.look, .goes_on = run.goes_on()};
    for (const EpochRecord& epoch : run.record.epochs)
      if (const auto value = subject.value(epoch)) {
        const auto number = static_cast<double>(epoch.cost.epoch);
        curve.points.push_back(
            {.across = across == CurveChart::Across::epochs ? number : epoch.seconds, .value = *value});
      }
    if (!curve.points.empty()) chart.curves.push_back(std::move(curve));
  }
  return chart.html();
}

/// The charts side by side, with `last` after them.
std::string charts_across(const std::vector<ReportedRun>& runs, CurveChart::Across across, const std::string& last) {
  std::string charts;
  for (const CurveSubject& subject : kLossesAndAccuracies) charts += chart_of(runs, subject, across);
  return "<div class=\"charts\">\n" + charts + last + "</div>\n";
}

std::string legend(const std::vector<ReportedRun>& runs) {
  std::string items;
  const auto add = [&](std::optional<size_t> look, const std::string& text) {
    items += fmt::format("<li>{}<span>{}</span></li>\n", curve_sample(look), text);
  };
  std::vector<const ReportedRun*> named;
  size_t others = 0;
  for (const ReportedRun& run : runs)
    if (run.look)
      named.push_back(&run);
    else if (!run.record.epochs.empty())
      ++others;
  std::ranges::sort(named, {}, &ReportedRun::look);
  for (const ReportedRun* shown : named) {
    const ReportedRun& run = *shown;
    add(run.look,
        fmt::format(
            "<a href=\"#{}\">{}</a>{}{}", run.anchor, html_text(run.label),
            run.difference.empty() ? "" : fmt::format(" <span class=\"quiet\">{}</span>", html_text(run.difference)),
            run.goes_on() ? fmt::format(" <em>{}</em>", run.state.state()) : ""));
  }
  if (others > 0)
    add(std::nullopt,
        fmt::format("{}; the {} runs with {} are named", counted(others, "other run"), kCurveLooks, chosen_by(runs)));
  return "<ul class=\"legend curves\">\n" + items + "</ul>\n";
}

std::optional<double> seconds_until(const ReportedRun& run, double accuracy) {
  for (const EpochRecord& epoch : run.record.epochs)
    if (epoch.test && epoch.test->accuracy >= accuracy) return epoch.seconds;
  return std::nullopt;
}

/// The highest few of the accuracy levels that a run has reached.
std::vector<double> reached_levels(const std::vector<ReportedRun>& runs) {
  constexpr double kLevels[] = {0.2, 0.4, 0.6, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995};
  constexpr size_t kShownLevels = 4;
  std::vector<double> reached;
  for (const double level : kLevels)
    if (std::ranges::any_of(runs, [&](const ReportedRun& run) { return seconds_until(run, level).has_value(); }))
      reached.push_back(level);
  if (reached.size() > kShownLevels) reached.erase(reached.begin(), reached.end() - kShownLevels);
  return reached;
}

std::string time_to_accuracy(const std::vector<ReportedRun>& runs) {
  const std::vector<double> levels = reached_levels(runs);
  if (levels.empty()) return "";
  std::vector<HtmlColumn> columns = {{.header = "run", .cells = {}}};
  for (const double level : levels)
    columns.push_back({.header = fmt::format("{:g} %", 100 * level), .cells = {}, .look = "number"});
  for (const ReportedRun& run : runs) {
    if (run.record.epochs.empty()) continue;
    columns[0].cells.push_back(link_to(run));
    for (size_t i = 0; i < levels.size(); ++i) {
      const auto seconds = seconds_until(run, levels[i]);
      columns[i + 1].cells.push_back(seconds ? fmt::format("{:.2f}", *seconds) : "-");
    }
  }
  return "<figure class=\"chart\">\n<figcaption>Seconds to reach a test accuracy</figcaption>\n<p "
         "class=\"quiet\">Training seconds up to the end of the first epoch with at least that accuracy.</p>\n" +
         html_table(columns, "Training seconds to reach a test accuracy") + "</figure>\n";
}

}  // namespace

std::string report_curves(const std::vector<ReportedRun>& runs) {
  if (std::ranges::all_of(runs, [](const ReportedRun& run) { return run.record.epochs.empty(); }))
    return "<p>No run has finished an epoch yet.</p>\n";
  // The table can stand beside a chart only if it is short enough.
  const std::string table = time_to_accuracy(runs);
  const bool is_long = runs.size() > kCurveLooks;
  return legend(runs) + "<h3>Over epochs</h3>\n" +
         charts_across(runs, CurveChart::Across::epochs, chart_of(runs, kLearningRate, CurveChart::Across::epochs)) +
         "<h3>Over training seconds</h3>\n" + charts_across(runs, CurveChart::Across::seconds, is_long ? "" : table) +
         (is_long ? table : "");
}

}  // namespace dptrain::train
