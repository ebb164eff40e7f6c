#include "train/report_page.h"

#include <fmt/format.h>

#include "base/html_text.h"
#include "train/report_costs.h"
#include "train/report_curves.h"
#include "train/report_details.h"
#include "train/report_overview.h"
#include "train/report_style.h"
#include "train/reported_run.h"
#include "train/stacked_bar.h"

namespace dptrain::train {
namespace {

struct Part {
  const char* anchor;
  const char* title;
  std::string html;  ///< "" if it is empty
};

/// The page's head. Its policy lets nothing be loaded or run, whatever text a configuration contains.
std::string head(const std::string& title) {
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta name=\"color-scheme\" content=\"light dark\">\n<title>{}</title>\n<style>\n{}</style>\n</head>\n",
      html_text(title), report_style());
}

}  // namespace

ReportPage::ReportPage(const std::vector<std::filesystem::path>& paths)
    : table_(read_runs(paths, [this](const RunState& run) { records_.push_back(read_run_record(run)); })) {}

std::string ReportPage::html() const {
  const std::vector<ReportedRun> runs = reported_runs(table_, records_);
  std::string details;
  for (const ReportedRun& run : runs) details += report_details(run);
  const Part parts[] = {{"runs", "Runs", report_table(table_, runs)},
                        {"curves", "Curves", report_curves(runs)},
                        {"time", "Where the time goes", report_times(runs)},
                        {"memory", "Memory", report_memory(runs)},
                        {"each-run", "Each run", details}};
  std::string links, sections;
  for (const Part& part : parts) {
    if (part.html.empty()) continue;
    links += fmt::format("<a href=\"#{}\">{}</a>\n", part.anchor, part.title);
    sections += fmt::format("<section id=\"{}\">\n<h2>{}</h2>\n{}</section>\n", part.anchor, part.title, part.html);
  }
  return head(report_title(runs)) + "<body>\n" + bar_fills() + "<main>\n<header>\n" + report_beginning(table_, runs) +
         "<nav aria-label=\"Parts of this page\">\n" + links + "</nav>\n</header>\n" + sections +
         "</main>\n</body>\n</html>\n";
}

}  // namespace dptrain::train
