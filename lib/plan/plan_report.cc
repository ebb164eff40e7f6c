#include "plan/plan_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <ranges>
#include <vector>

#include "base/digit_groups.h"
#include "base/text_table.h"
#include "device/host_machine.h"
#include "plan/plan_totals.h"

namespace dptrain::plan {
namespace {

constexpr double kMegabyte = 1e6, kGigabyte = 1e9, kGigaflop = 1e9;

std::string megabytes(int64_t bytes) { return fmt::format("{:.1f}", static_cast<double>(bytes) / kMegabyte); }

/// "0 to 3 (cuda:0-3)"; without the devices if they are of several kinds or if their numbers begin again.
std::string ranks_name(const std::vector<PlannedRank>& ranks, size_t first, size_t last) {
  const DeviceId& device = ranks[first].device;
  if (first == last) return fmt::format("{} ({})", first, device.name());
  const auto count = static_cast<int>(last - first);
  const bool in_turn = std::ranges::all_of(std::views::iota(first, last + 1), [&](size_t r) {
    return ranks[r].device == DeviceId{device.kind, device.index + static_cast<int>(r - first)};
  });
  const std::string names = in_turn ? fmt::format(" ({}-{})", device.name(), device.index + count) : "";
  return fmt::format("{}{}{}{}", first, last == first + 1 ? ", " : " to ", last, names);
}

/// Consecutive ranks with equal numbers share a row.
std::string memory_table(const std::vector<PlannedRank>& ranks, int width) {
  std::vector<TableColumn> columns = {{.header = "MB per rank", .cells = {}, .left_aligned = true},
                                      {.header = "samples", .cells = {}},
                                      {.header = "peak", .cells = {}}};
  for (const MemoryPurpose purpose : kMemoryPurposes)
    columns.push_back({.header = std::string(memory_purpose_name(purpose)), .cells = {}});
  const auto cells_of = [](const PlannedRank& rank) {
    std::vector<std::string> cells = {std::to_string(rank.samples), megabytes(rank.peak_bytes)};
    for (const MemoryPurpose purpose : kMemoryPurposes) cells.push_back(megabytes(rank.memory_at_peak[purpose]));
    return cells;
  };
  for (size_t first = 0; first < ranks.size();) {
    std::vector<std::string> cells = cells_of(ranks[first]);
    size_t next = first + 1;
    while (next < ranks.size() && cells_of(ranks[next]) == cells) ++next;
    cells.insert(cells.begin(), ranks_name(ranks, first, next - 1));
    add_row(columns, cells);
    first = next;
  }
  return text_table(columns, width);
}

std::string operator_table(const PlannedRank& rank, int width) {
  std::vector<TableColumn> columns = {{.header = "operators of rank 0", .cells = {}, .left_aligned = true},
                                      {.header = "calls", .cells = {}},
                                      {.header = "GFLOP", .cells = {}},
                                      {.header = "MB", .cells = {}}};
  const auto add = [&](const std::string& name, const OperatorTotal& total) {
    add_row(columns, {name, std::to_string(total.calls), fmt::format("{:.4g}", total.flops / kGigaflop),
                      fmt::format("{:.4g}", static_cast<double>(total.bytes) / kMegabyte)});
  };
  OperatorTotal sum;
  for (const auto& [name, total] : operator_totals(rank)) {
    add(name, total);
    sum.calls += total.calls;
    sum.flops += total.flops;
    sum.bytes += total.bytes;
  }
  add("all", sum);
  return text_table(columns, width);
}

std::string message_table(const PlannedRank& rank, int width) {
  if (rank.calls.empty()) return "no messages\n";
  std::vector<TableColumn> columns = {{.header = "messages of rank 0", .cells = {}, .left_aligned = true},
                                      {.header = "calls", .cells = {}},
                                      {.header = "elements", .cells = {}},
                                      {.header = "MB sent", .cells = {}}};
  const auto add = [&](const std::string& name, int64_t calls, const std::string& elements, int64_t sent) {
    add_row(columns,
            {name, std::to_string(calls), elements, fmt::format("{:.4g}", static_cast<double>(sent) / kMegabyte)});
  };
  const auto totals = message_totals(rank);
  // A store has one call per key, with many roots.
  constexpr size_t kMostRows = 24;
  for (size_t i = 0; i < std::min(kMostRows, totals.size()); ++i) {
    const auto& [key, total] = totals[i];
    add(message_name(key), total.calls, std::to_string(total.elements), total.sent_bytes);
  }
  if (totals.size() > kMostRows) add_row(columns, {fmt::format("and {} more", totals.size() - kMostRows), "", "", ""});
  int64_t calls = 0;
  for (const auto& [key, total] : totals) calls += total.calls;
  add("all", calls, "", rank.sent.bytes);
  return text_table(columns, width);
}

/// The rank that finishes last; its computing and waiting is the step.
size_t last_rank(const StepTimes& times) {
  return static_cast<size_t>(std::ranges::max_element(times.ranks, {}, &RankTimes::all_s) - times.ranks.begin());
}

std::string pipeline_text(const PlanReport& report) {
  const parallel::PipelineFigures& pipeline = *report.step.pipeline;
  std::string text = fmt::format("a pipeline of {} stages, {} micro-batches per step, {}:\n", pipeline.stages.size(),
                                 pipeline.micro_batches, pipeline.schedule);
  const size_t devices = pipeline.stages.size() / static_cast<size_t>(pipeline.stages_per_device);
  for (size_t s = 0; s < pipeline.stages.size(); ++s) {
    const std::string place = pipeline.stages_per_device > 1 ? fmt::format(" (device {})", s % devices) : std::string();
    text += fmt::format("  stage {}{}: {}\n", s, place, fmt::join(pipeline.stages[s], ", "));
  }
  text += fmt::format("  stages of equal length would wait {:.1f} % of a step", 100 * pipeline.predicted_bubble);
  if (report.times) text += fmt::format("; these wait {:.1f} %", 100 * report.times->bubble());
  return text + "\n\n";
}

/// "2, one in each worker's process"
std::string servers_text(const StorePlaces& places) {
  const size_t servers = places.hosts_of_servers.size();
  const int workers = places.workers.processes(), more = places.hosts() - workers;
  if (places.servers_are_workers)
    return fmt::format("{}{}", servers, workers == 1 ? " in the worker's process" : ", one in each worker's process");
  if (more > 0)
    return fmt::format("{} on {} of their own", servers, more == 1 ? "a host" : fmt::format("{} hosts", more));
  return fmt::format("{} on the workers' hosts", servers);
}

std::string store_text(const PlanReport& report) {
  const StorePlaces& places = *report.places;
  const StoreTraffic traffic = traffic_of(*report.step.store->served, places);
  const auto mega = [](int64_t bytes) { return static_cast<double>(bytes) / kMegabyte; };
  std::string text = fmt::format("a store: workers {}, servers {}\n", places.workers.processes(), servers_text(places));
  text += fmt::format("  the fullest server holds {:.4g} MB of weights and optimizer state\n",
                      mega(std::ranges::max(report.step.store->bytes)));
  text += fmt::format("  a worker pushes {:.4g} MB and pulls {:.4g} MB per step", mega(traffic.pushed),
                      mega(traffic.pulled));
  if (places.hosts() > 1)
    text += fmt::format("; over the busiest links, {:.4g} MB enter a host and {:.4g} MB leave one",
                        mega(traffic.entering), mega(traffic.leaving));
  if (report.times)
    text += fmt::format("\n  the busiest server adds up and updates for {:.4g} ms", 1e3 * report.times->server_s);
  return text + "\n\n";
}

std::string shares_text(const EstimateShares& shares) {
  return fmt::format(
      "operators' time: {:.1f} % measured for these shapes, {:.1f} % for other shapes, {:.1f} % from device figures\n",
      100 * shares.same_operands, 100 * shares.same_operator, 100 * shares.figures);
}

std::string averaging_text(const PlanReport& report) {
  const int64_t period = report.step.averaging->period;
  if (period == 1) return "the weights are averaged after every step\n\n";
  std::string text = fmt::format(
      "the weights are averaged after one step in {}, such as this one; the other steps send nothing", period);
  if (report.between)
    text += fmt::format(", and take {:.4g} ms; the mean of all steps is {:.4g} ms", 1e3 * report.between->step_s,
                        1e3 * report.mean_step_s());
  return text + "\n\n";
}

/// Samples per second, rounded to integers if there are many.
std::string rate(double samples_per_s) {
  return samples_per_s < 1000 ? fmt::format("{:.4g}", samples_per_s) : digit_groups(samples_per_s);
}

std::string times_text(const PlanReport& report) {
  if (!report.times)
    return "no times: the devices' figures are not known; name the devices as 16xh200, or give --operators or "
           "--calibrate\n";
  const StepTimes& times = *report.times;
  const size_t last = last_rank(times);
  const RankTimes& rank = times.ranks[last];
  // Ranks that all do the same need no name.
  const bool alike = std::ranges::all_of(times.ranks, [&](const RankTimes& other) {
    return std::abs(other.compute_s - rank.compute_s) <= 0.01 * rank.compute_s;
  });
  std::string text = fmt::format(
      "a step takes {:.4g} ms{}: {:.4g} computing, {:.4g} waiting for {:.4g} of communication, {:.4g} other\n",
      1e3 * times.step_s, alike ? "" : fmt::format(", the time of rank {}", last), 1e3 * rank.compute_s,
      1e3 * rank.exposed_comm_s, 1e3 * times.comm_s, 1e3 * times.host_s);
  const double mean_s = report.mean_step_s();
  text += fmt::format("{} samples/s; an epoch of {} step{} takes {:.4g} s\nfigures: {}\n",
                      rate(static_cast<double>(report.step.batch_samples) / mean_s), report.step.steps_per_epoch,
                      report.step.steps_per_epoch == 1 ? "" : "s",
                      static_cast<double>(report.step.steps_per_epoch) * mean_s, report.figures_source);
  return report.shares ? text + shares_text(*report.shares) : text;
}

}  // namespace

int64_t PlanReport::most_bytes() const {
  const auto most = std::ranges::max_element(step.ranks, {}, &PlannedRank::peak_bytes);
  return most->peak_bytes;
}

double PlanReport::mean_step_s() const {
  if (!between) return times->step_s;
  const auto period = static_cast<double>(step.averaging->period);
  return (times->step_s + (period - 1) * between->step_s) / period;
}

std::optional<bool> PlanReport::fits() const {
  if (device_memory_bytes) return most_bytes() <= *device_memory_bytes;
  return host_memory_bytes ? std::optional(all_bytes() <= most_of_workers(*host_memory_bytes)) : std::nullopt;
}

int64_t PlanReport::all_bytes() const {
  const auto further = static_cast<int64_t>(step.world_size) - static_cast<int64_t>(step.ranks.size());
  int64_t bytes = further * step.ranks.back().peak_bytes;
  for (const PlannedRank& rank : step.ranks) bytes += rank.peak_bytes;
  if (step.store && step.store->type == "local") bytes += step.store->bytes.front();
  return bytes;
}

std::string PlanReport::text(int width) const {
  std::string memory_below;
  if (fits() == false) {
    // Doubling accumulate halves the activations that a device holds at once.
    const std::string smaller = fmt::format("accumulate: {}", 2 * accumulate);
    const auto gigabytes = [](int64_t bytes) { return static_cast<double>(bytes) / kGigabyte; };
    memory_below += device_memory_bytes
                        ? fmt::format(
                              "it does not fit: it takes {:.1f} GB, and a device has {:.0f} GB; use a smaller batch, "
                              "{}, or more devices\n",
                              gigabytes(most_bytes()), gigabytes(*device_memory_bytes), smaller)
                        : fmt::format(
                              "it does not fit: it takes {:.1f} GB, and workers may take {:.1f} GB here; use a smaller "
                              "batch, or {}\n",
                              gigabytes(all_bytes()), gigabytes(most_of_workers(*host_memory_bytes)), smaller);
  }
  const auto shown = static_cast<int>(step.ranks.size());
  if (shown < step.world_size)
    memory_below += fmt::format("ranks {} to {} are like these\n", shown, step.world_size - 1);
  if (step.store && step.store->type == "local")
    memory_below += fmt::format("the store holds {} MB in host memory\n", megabytes(step.store->bytes.front()));
  const std::string end = (step.pipeline ? pipeline_text(*this) : "") + (places ? store_text(*this) : "") +
                          (step.averaging ? averaging_text(*this) : "") + times_text(*this);
  std::string parameters = digit_groups(static_cast<double>(step.parameters.all)) + " parameters";
  if (step.parameters.frozen > 0)
    parameters += fmt::format(", {} of them frozen", digit_groups(static_cast<double>(step.parameters.frozen)));
  return wrapped(fmt::format("{}: {} on {}, {} samples per step, {}\n\n", run, strategy, devices, step.batch_samples,
                             parameters),
                 width) +
         memory_table(step.ranks, width) + wrapped(memory_below + "\n", width) +
         operator_table(step.ranks.front(), width) + "\n" + message_table(step.ranks.front(), width) + "\n" +
         wrapped(end, width);
}

}  // namespace dptrain::plan
