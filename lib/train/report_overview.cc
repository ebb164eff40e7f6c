#include "train/report_overview.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <string_view>

#include "base/counted.h"
#include "base/digit_groups.h"
#include "base/html_table.h"
#include "base/html_text.h"

namespace dptrain::train {
namespace {

/// The value that all runs have for this key, or for a mapping its name; "" if they differ.
std::string common_value(const std::vector<ReportedRun>& runs, const char* key) {
  std::string common;
  for (const ReportedRun& run : runs) {
    const ConfigNode* node = run.state.config.find(key);
    if (node != nullptr && node->kind == ConfigNode::Kind::map) node = node->find("name");
    if (node == nullptr || node->kind != ConfigNode::Kind::scalar) return "";
    if (&run != &runs.front() && node->scalar != common) return "";
    common = node->scalar;
  }
  return common;
}

/// "4 finished, 1 unfinished"
std::string states_of(const std::vector<ReportedRun>& runs) {
  std::vector<std::string> parts;
  for (const std::string_view state : {"finished", "running", "stopped", "failed", "unfinished"})
    if (const auto count =
            std::ranges::count_if(runs, [&](const ReportedRun& run) { return run.state.state() == state; });
        count > 0)
      parts.push_back(fmt::format("{} {}", count, state));
  return fmt::format("{}", fmt::join(parts, ", "));
}

/// A figure of runs. The run with the lowest badness is the best.
struct Figure {
  const char* of_one;   ///< its name for a single run
  const char* of_best;  ///< its name for the best of several runs
  const char* unit;
  std::optional<double> (*badness)(const ReportedRun& run);
  std::string (*text)(const ReportedRun& run);
};

constexpr Figure kFigures[] = {
    {"Test accuracy", "Highest test accuracy", "%",
     [](const ReportedRun& run) { return run.state.accuracy ? std::optional(-*run.state.accuracy) : std::nullopt; },
     [](const ReportedRun& run) { return fmt::format("{:.2f}", 100 * *run.state.accuracy); }},
    {"An epoch", "Shortest epoch", "s",
     [](const ReportedRun& run) { return run.figures ? std::optional(run.figures->seconds_per_epoch) : std::nullopt; },
     [](const ReportedRun& run) { return fmt::format("{:.3f}", run.figures->seconds_per_epoch); }},
    {"Samples per second", "Most samples per second", "",
     [](const ReportedRun& run) { return run.figures ? std::optional(-run.figures->samples_per_s) : std::nullopt; },
     [](const ReportedRun& run) { return digit_groups(run.figures->samples_per_s); }},
    {"Memory of the fullest device", "Least memory of the fullest device", "MB",
     [](const ReportedRun& run) {
       return run.figures ? std::optional(static_cast<double>(run.figures->peak_bytes)) : std::nullopt;
     },
     [](const ReportedRun& run) { return fmt::format("{:.1f}", static_cast<double>(run.figures->peak_bytes) / 1e6); }}};

std::string best_figures(const std::vector<ReportedRun>& runs) {
  std::string items;
  for (const Figure& figure : kFigures) {
    const ReportedRun* best = nullptr;
    for (const ReportedRun& run : runs)
      if (const auto value = figure.badness(run); value && (best == nullptr || *value < *figure.badness(*best)))
        best = &run;
    if (best != nullptr)
      items += fmt::format("<div><dt>{}</dt><dd><b>{}<small> {}</small></b> {}</dd></div>\n",
                           runs.size() == 1 ? figure.of_one : figure.of_best, figure.text(*best), figure.unit,
                           runs.size() == 1 ? "" : link_to(*best));
  }
  return items.empty() ? "" : "<dl class=\"best\">\n" + items + "</dl>\n";
}

std::string lead(const RunTable& table, const std::vector<ReportedRun>& runs) {
  std::string text = states_of(runs) + ".";
  std::vector<std::string> keys;
  for (const DifferingKey& key : table.differences())
    if (key.key != "name") keys.push_back(key.key);
  constexpr size_t kNamedKeys = 6;
  const size_t more = keys.size() > kNamedKeys ? keys.size() - kNamedKeys : 0;
  keys.resize(keys.size() - more);
  if (!keys.empty())
    text += fmt::format(" They differ in {}{}.", fmt::join(keys, ", "),
                        more > 0 ? fmt::format(" and {}", counted(more, "more key")) : "");
  const auto is_unfinished = [](const ReportedRun& run) { return run.goes_on() && !run.state.is_running; };
  if (std::ranges::any_of(runs, is_unfinished)) text += " Unfinished runs were killed, or are running on another host.";
  return text;
}

}  // namespace

std::string report_title(const std::vector<ReportedRun>& runs) {
  const std::string model = common_value(runs, "model"), dataset = common_value(runs, "dataset");
  return counted(runs.size(), "run") + (model.empty() ? "" : " of " + model) +
         (dataset.empty() ? "" : " on " + dataset);
}

std::string report_beginning(const RunTable& table, const std::vector<ReportedRun>& runs) {
  std::string left_out;
  if (table.left_out())
    for (const std::string& reason : table.left_out()->lines())
      left_out += fmt::format("<p class=\"fault\"><strong>Left out:</strong> {}</p>\n", html_text(reason));
  return fmt::format("<h1>{}</h1>\n<p class=\"lead\">{}</p>\n{}{}", html_text(report_title(runs)),
                     html_text(lead(table, runs)), left_out, best_figures(runs));
}

std::string report_table(const RunTable& table, const std::vector<ReportedRun>& runs) {
  std::vector<HtmlColumn> columns;
  for (const TableColumn& column : table.columns())
    if (column.header != "name" || column.cells != table.labels()) columns.push_back(html_column(column));
  for (size_t i = 0; i < runs.size(); ++i) columns[0].cells[i] = link_to(runs[i]);
  for (HtmlColumn& column : columns)
    if (column.header == "state")
      for (std::string& cell : column.cells) cell = fmt::format("<span class=\"state {0}\">{0}</span>", cell);
  return html_table(columns, "The runs");
}

}  // namespace dptrain::train
