#include "train/report_costs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/digit_groups.h"
#include "base/html_table.h"
#include "base/html_text.h"
#include "train/stacked_bar.h"

namespace dptrain::train {
namespace {

struct TimePart {
  const char* name;
  const char* header;
  double TimeShares::*seconds;
  size_t fill;
};

constexpr TimePart kTimeParts[] = {{"compute", "compute", &TimeShares::compute_s, 0},
                                   {"exposed communication", "exposed", &TimeShares::exposed_comm_s, 1},
                                   {"data wait", "data wait", &TimeShares::data_wait_s, 4},
                                   {"optimizer", "optimizer", &TimeShares::optimizer_s, 2},
                                   {"other", "other", &TimeShares::other_s, 5}};

/// "0.123"; the remainder of an epoch may be slightly below zero from rounding.
std::string seconds_text(double seconds) { return fmt::format("{:.3f}", std::abs(seconds) < 0.0005 ? 0.0 : seconds); }

std::string megabytes_text(double bytes) {
  return bytes < 1e9 ? fmt::format("{:.1f}", bytes / 1e6) : digit_groups(bytes / 1e6);
}

std::vector<BarPart> time_parts(const TrainingFigures& figures) {
  std::vector<BarPart> parts;
  for (const TimePart& part : kTimeParts) {
    const double seconds = figures.time.*part.seconds;
    const double share = figures.seconds_per_epoch > 0 ? 100 * seconds / figures.seconds_per_epoch : 0;
    parts.push_back({.name = part.name,
                     .value = seconds,
                     .text = fmt::format("{} s, {:.1f} %", seconds_text(seconds), share),
                     .fill = part.fill});
  }
  return parts;
}

/// What a device held when it held most.
MemoryCounts memory_at_peak(const ReportedRun& run, size_t rank) {
  const auto fullest = std::ranges::max_element(
      run.on_its_devices, {}, [rank](const EpochRecord& epoch) { return epoch.cost.devices[rank].peak_bytes; });
  return fullest->cost.devices[rank].memory;
}

std::vector<BarPart> memory_parts(const MemoryCounts& memory) {
  std::vector<BarPart> parts;
  for (const MemoryPurpose purpose : kMemoryPurposes) {
    const auto bytes = static_cast<double>(memory[purpose]);
    parts.push_back({.name = memory_purpose_name(purpose),
                     .value = bytes,
                     .text = megabytes_text(bytes) + " MB",
                     .fill = static_cast<size_t>(purpose)});
  }
  return parts;
}

std::vector<const ReportedRun*> with_figures(const std::vector<ReportedRun>& runs) {
  std::vector<const ReportedRun*> some;
  for (const ReportedRun& run : runs)
    if (run.figures) some.push_back(&run);
  return some;
}

/// "cpu:0", or "cpu:0 on b" if there are several hosts; with the rank for a device that is listed twice.
std::string device_text(const std::vector<DeviceMetrics>& devices, size_t rank) {
  std::set<std::string> hosts;
  int alike = 0;
  for (const DeviceMetrics& device : devices) {
    hosts.insert(device.host);
    if (device.device == devices[rank].device && device.host == devices[rank].host) ++alike;
  }
  std::string text = devices[rank].device;
  if (hosts.size() > 1) text += " on " + devices[rank].host;
  if (alike > 1) text += fmt::format(", rank {}", devices[rank].rank);
  return text;
}

}  // namespace

std::string report_times(const std::vector<ReportedRun>& runs) {
  const auto shown = with_figures(runs);
  if (shown.empty()) return "";
  double longest = 0;
  for (const ReportedRun* run : shown) {
    double seconds = 0;
    for (const TimePart& part : kTimeParts) seconds += std::max(run->figures->time.*part.seconds, 0.0);
    longest = std::max(longest, seconds);
  }
  HtmlColumn names{.header = "run", .cells = {}}, bars{.header = "seconds per epoch", .cells = {}, .look = "bars"};
  std::vector<TableColumn> numbers = {{.header = "s/epoch", .cells = {}}};
  for (const TimePart& part : kTimeParts) numbers.push_back({.header = part.header, .cells = {}});
  numbers.push_back({.header = "samples/s", .cells = {}});
  numbers.push_back({.header = "MB sent", .cells = {}});
  for (const ReportedRun* run : shown) {
    const TrainingFigures& figures = *run->figures;
    names.cells.push_back(link_to(*run));
    bars.cells.push_back(stacked_bar(time_parts(figures), longest));
    std::vector<std::string> cells = {seconds_text(figures.seconds_per_epoch)};
    for (const TimePart& part : kTimeParts) cells.push_back(seconds_text(figures.time.*part.seconds));
    cells.push_back(digit_groups(figures.samples_per_s));
    cells.push_back(megabytes_text(figures.comm_bytes));
    add_row(numbers, cells);
  }
  std::vector<HtmlColumn> columns = {names, bars};
  for (const TableColumn& column : numbers) columns.push_back(html_column(column));
  return "<p>Training seconds per epoch, the mean over the devices. All figures are medians over the epochs after the "
         "first, which warms up; with one epoch, they are from that epoch. Exposed communication is communication that "
         "no computation hid. Bytes sent are the sum over all devices.</p>\n" +
         bar_legend(time_parts({})) + html_table(columns, "Where the seconds of an epoch go");
}

std::string report_memory(const std::vector<ReportedRun>& runs) {
  const auto shown = with_figures(runs);
  if (shown.empty()) return "";
  double most = 0;
  for (const ReportedRun* run : shown)
    for (size_t rank = 0; rank < run->figures->device_peak_bytes.size(); ++rank)
      most = std::max(most, static_cast<double>(memory_at_peak(*run, rank).total_bytes()));
  HtmlColumn names{.header = "run", .cells = {}}, bars{.header = "memory at the peak", .cells = {}, .look = "bars"};
  std::vector<TableColumn> numbers = {{.header = "device", .cells = {}, .left_aligned = true},
                                      {.header = "peak MB", .cells = {}}};
  for (const MemoryPurpose purpose : kMemoryPurposes)
    numbers.push_back({.header = std::string(memory_purpose_name(purpose)), .cells = {}});
  for (const ReportedRun* run : shown)
    for (size_t rank = 0; rank < run->figures->device_peak_bytes.size(); ++rank) {
      const MemoryCounts memory = memory_at_peak(*run, rank);
      names.cells.push_back(link_to(*run));
      bars.cells.push_back(stacked_bar(memory_parts(memory), most));
      std::vector<std::string> cells = {device_text(run->on_its_devices.back().cost.devices, rank),
                                        megabytes_text(static_cast<double>(run->figures->device_peak_bytes[rank]))};
      for (const MemoryPurpose purpose : kMemoryPurposes)
        cells.push_back(megabytes_text(static_cast<double>(memory[purpose])));
      add_row(numbers, cells);
    }
  std::vector<HtmlColumn> columns = {names, html_column(numbers[0]), bars};
  for (size_t i = 1; i < numbers.size(); ++i) columns.push_back(html_column(numbers[i]));
  return "<p>The most memory that each device held at once, in MB, and what it consisted of at that time.</p>\n" +
         bar_legend(memory_parts({})) + html_table(columns, "Memory of each device at its peak");
}

}  // namespace dptrain::train
