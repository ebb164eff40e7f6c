#include "plan/plan_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>
#include <vector>

#include "comm/comm_call.h"

namespace dptrain::plan {
namespace {

using nlohmann::ordered_json;

constexpr double kMega = 1e6, kGiga = 1e9;

/// Equal things of a step, counted in the order in which they come first.
template <class Key, class Value>
class Totals {
 public:
  Value& of(const Key& key) {
    const auto [place, is_new] = places_.try_emplace(key, rows_.size());
    if (is_new) rows_.emplace_back(key, Value());
    return rows_[place->second].second;
  }
  std::vector<std::pair<Key, Value>> rows() && { return std::move(rows_); }

 private:
  std::map<Key, size_t> places_;
  std::vector<std::pair<Key, Value>> rows_;
};

struct OperatorTotal {
  int64_t calls = 0;
  double flops = 0;
  int64_t bytes = 0;
};

std::vector<std::pair<std::string, OperatorTotal>> operator_totals(const PlannedRank& rank) {
  Totals<std::string, OperatorTotal> totals;
  for (const OperatorCost& cost : rank.operators) {
    OperatorTotal& total = totals.of(cost.name);
    ++total.calls;
    total.flops += cost.flops;
    total.bytes += cost.bytes;
  }
  return std::move(totals).rows();
}

struct MessageTotal {
  int64_t calls = 0;
  int64_t elements = 0;
  int64_t sent_bytes = 0;
};

/// By name, type, root and the memory that it is of.
using MessageKey = std::tuple<std::string, DType, int, bool>;

constexpr const char *kPush = "push", *kPull = "pull";

/// What goes to the servers of a store, and comes from them, has names of its own.
std::string name_of(const LoggedCall& logged) {
  if (logged.key) return logged.call.kind == CommKind::send ? kPush : kPull;
  return std::string(comm_kind_name(logged.call.kind));
}

std::vector<std::pair<MessageKey, MessageTotal>> message_totals(const PlannedRank& rank) {
  Totals<MessageKey, MessageTotal> totals;
  for (const LoggedCall& logged : rank.calls) {
    if (logged.call.kind == CommKind::barrier) continue;
    const CommBuffer& payload = logged.call.payload();
    MessageTotal& total = totals.of({name_of(logged), payload.dtype, logged.call.other, logged.over_host});
    ++total.calls;
    total.elements += payload.elements;
    total.sent_bytes += logged.sent_bytes;
  }
  return std::move(totals).rows();
}

std::string message_name(const MessageKey& key) {
  const auto& [call, dtype, other, over_host] = key;
  std::string name = fmt::format("{} {}", call, dtype_name(dtype));
  if (call == kPush) return name + " to servers";
  if (call == kPull) return name + " from servers";
  const auto is = [&call](CommKind kind) { return call == comm_kind_name(kind); };
  const bool goes = is(CommKind::reduce) || is(CommKind::gather) || is(CommKind::send);
  if (other >= 0) name += fmt::format(", {} {}", goes ? "to" : "from", other);
  return over_host ? name + ", in host memory" : name;
}

std::string rank_name(const PlanReport& report, size_t rank) {
  return fmt::format("{} ({})", rank, report.step.ranks[rank].device.name());
}

std::string memory_table(const PlanReport& report) {
  std::string text = fmt::format("{:<18}{:>9}{:>9}", "rank: MB", "samples", "peak");
  for (const MemoryPurpose purpose : kMemoryPurposes) text += fmt::format("{:>14}", memory_purpose_name(purpose));
  for (size_t r = 0; r < report.step.ranks.size(); ++r) {
    const PlannedRank& rank = report.step.ranks[r];
    text += fmt::format("\n{:<18}{:>9}{:>9.1f}", rank_name(report, r), rank.samples,
                        static_cast<double>(rank.peak_bytes) / kMega);
    for (const MemoryPurpose purpose : kMemoryPurposes)
      text += fmt::format("{:>14.1f}", static_cast<double>(rank.memory_at_peak[purpose]) / kMega);
  }
  return text + "\n";
}

std::string operator_table(const PlannedRank& rank) {
  std::string text = fmt::format("{:<30}{:>8}{:>12}{:>12}\n", "operators of rank 0", "calls", "GFLOP", "MB");
  OperatorTotal sum;
  for (const auto& [name, total] : operator_totals(rank)) {
    text += fmt::format("{:<30}{:>8}{:>12.4g}{:>12.4g}\n", name, total.calls, total.flops / kGiga,
                        static_cast<double>(total.bytes) / kMega);
    sum.calls += total.calls;
    sum.flops += total.flops;
    sum.bytes += total.bytes;
  }
  return text + fmt::format("{:<30}{:>8}{:>12.4g}{:>12.4g}\n", "all", sum.calls, sum.flops / kGiga,
                            static_cast<double>(sum.bytes) / kMega);
}

std::string message_table(const PlanReport& report) {
  const PlannedRank& rank = report.step.ranks.front();
  if (rank.calls.empty()) return "no messages\n";
  std::string text = fmt::format("{:<34}{:>8}{:>14}{:>12}\n", "messages of rank 0", "calls", "elements", "MB sent");
  const auto totals = message_totals(rank);
  // A store has a call a key, with many roots.
  constexpr size_t kMostRows = 24;
  for (size_t i = 0; i < std::min(kMostRows, totals.size()); ++i) {
    const auto& [key, total] = totals[i];
    text += fmt::format("{:<34}{:>8}{:>14}{:>12.4g}\n", message_name(key), total.calls, total.elements,
                        static_cast<double>(total.sent_bytes) / kMega);
  }
  if (totals.size() > kMostRows) text += fmt::format("and {} more\n", totals.size() - kMostRows);
  return text + fmt::format("{:<34}{:>8}{:>14}{:>12.4g}\n", "all", rank.sent.collectives, "",
                            static_cast<double>(rank.sent.bytes) / kMega);
}

/// Of the rank that computes longest.
const RankTimes& busiest(const StepTimes& times) {
  return *std::ranges::max_element(times.ranks, {}, &RankTimes::compute_s);
}

/// The share of the stages' time in which they don't compute.
double bubble(const StepTimes& times) {
  double computing = 0;
  for (const RankTimes& rank : times.ranks) computing += rank.compute_s;
  return 1 - computing / (static_cast<double>(times.ranks.size()) * (times.step_s - times.host_s));
}

std::string pipeline_text(const PlanReport& report) {
  const parallel::PipelineFigures& pipeline = *report.step.pipeline;
  std::string text = fmt::format("a pipeline of {} stages, {} micro-batches a step, {}:\n", pipeline.stages.size(),
                                 pipeline.micro_batches, pipeline.schedule);
  for (size_t s = 0; s < pipeline.stages.size(); ++s)
    text += fmt::format("  stage {}: {}\n", s, fmt::join(pipeline.stages[s], ", "));
  text += fmt::format("  stages as long as each other would wait {:.1f} % of a step", 100 * pipeline.predicted_bubble);
  if (report.times) text += fmt::format("; these wait {:.1f} %", 100 * bubble(*report.times));
  return text + "\n\n";
}

ordered_json pipeline_json(const PlanReport& report) {
  const parallel::PipelineFigures& pipeline = *report.step.pipeline;
  return {{"stages", pipeline.stages},
          {"micro_batches", pipeline.micro_batches},
          {"schedule", pipeline.schedule},
          {"equal_stages_bubble", pipeline.predicted_bubble},
          {"bubble", report.times ? ordered_json(bubble(*report.times)) : ordered_json(nullptr)}};
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
  const auto megabytes = [](int64_t bytes) { return static_cast<double>(bytes) / kMega; };
  std::string text = fmt::format("a store: workers {}, servers {}\n", places.workers.processes(), servers_text(places));
  text += fmt::format("  the fullest server holds {:.4g} MB of weights and optimizer state\n",
                      megabytes(std::ranges::max(report.step.store->bytes)));
  text += fmt::format("  a worker pushes {:.4g} MB and pulls {:.4g} MB a step", megabytes(traffic.pushed),
                      megabytes(traffic.pulled));
  if (places.hosts() > 1)
    text += fmt::format("; over the fullest links {:.4g} MB enter a host and {:.4g} MB leave one",
                        megabytes(traffic.entering), megabytes(traffic.leaving));
  if (report.times)
    text += fmt::format("\n  the busiest server adds up and updates for {:.4g} ms", 1e3 * report.times->server_s);
  return text + "\n\n";
}

ordered_json served_json(const PlanReport& report) {
  const StorePlaces& places = *report.places;
  const StoreTraffic traffic = traffic_of(*report.step.store->served, places);
  return {{"workers", places.workers.processes()},
          {"servers", places.hosts_of_servers.size()},
          {"hosts_of_servers", places.hosts_of_servers},
          {"pushed_bytes", traffic.pushed},
          {"pulled_bytes", traffic.pulled},
          {"entering_bytes", places.hosts() > 1 ? traffic.entering : 0},
          {"leaving_bytes", places.hosts() > 1 ? traffic.leaving : 0},
          {"server_s", report.times ? ordered_json(report.times->server_s) : ordered_json(nullptr)}};
}

std::string shares_text(const EstimateShares& shares) {
  return fmt::format("operators' time: {:.1f} % measured of these shapes, {:.1f} % of others, {:.1f} % by figures\n",
                     100 * shares.same_operands, 100 * shares.same_operator, 100 * shares.figures);
}

ordered_json shares_json(const std::optional<EstimateShares>& shares) {
  if (!shares) return nullptr;
  return {
      {"same_operands", shares->same_operands}, {"same_operator", shares->same_operator}, {"figures", shares->figures}};
}

std::string times_text(const PlanReport& report) {
  if (!report.times)
    return "no times: the devices' figures are not known; name the devices as 16xh200, or give --operators or "
           "--calibrate\n";
  const StepTimes& times = *report.times;
  const RankTimes& rank = busiest(times);
  const std::string text = fmt::format(
      "a step takes {:.4g} ms: {:.4g} computing, {:.4g} waiting for {:.4g} of communication, {:.4g} else\n"
      "{:.5g} samples/s; an epoch of {} steps takes {:.4g} s\n"
      "figures: {}\n",
      1e3 * times.step_s, 1e3 * rank.compute_s, 1e3 * rank.exposed_comm_s, 1e3 * times.comm_s, 1e3 * times.host_s,
      static_cast<double>(report.step.batch_samples) / times.step_s, report.step.steps_per_epoch,
      static_cast<double>(report.step.steps_per_epoch) * times.step_s, report.figures_source);
  return report.shares ? text + shares_text(*report.shares) : text;
}

ordered_json memory_json(const MemoryCounts& memory) {
  ordered_json document = ordered_json::object();
  for (const MemoryPurpose purpose : kMemoryPurposes)
    document[std::string(memory_purpose_name(purpose))] = memory[purpose];
  return document;
}

ordered_json rank_json(const PlanReport& report, size_t r) {
  const PlannedRank& rank = report.step.ranks[r];
  ordered_json operators = ordered_json::array(), messages = ordered_json::array();
  for (const auto& [name, total] : operator_totals(rank))
    operators.push_back({{"operator", name}, {"calls", total.calls}, {"flops", total.flops}, {"bytes", total.bytes}});
  for (const auto& [key, total] : message_totals(rank)) {
    const auto& [call, dtype, other, over_host] = key;
    messages.push_back({{"call", call},
                        {"dtype", dtype_name(dtype)},
                        {"root", other >= 0 ? ordered_json(other) : ordered_json(nullptr)},
                        {"over_host", over_host},
                        {"calls", total.calls},
                        {"elements", total.elements},
                        {"sent_bytes", total.sent_bytes}});
  }
  ordered_json document = {{"rank", r},
                           {"device", rank.device.name()},
                           {"samples", rank.samples},
                           {"peak_bytes", rank.peak_bytes},
                           {"memory", memory_json(rank.memory_at_peak)},
                           {"flops", rank.flops()},
                           {"comm", {{"bytes", rank.sent.bytes}, {"collectives", rank.sent.collectives}}},
                           {"operators", operators},
                           {"messages", messages},
                           {"time", nullptr}};
  if (report.times)
    document["time"] = {{"compute_s", report.times->ranks[r].compute_s},
                        {"exposed_comm_s", report.times->ranks[r].exposed_comm_s}};
  return document;
}

}  // namespace

std::string PlanReport::text() const {
  std::string text = fmt::format("{}: {} on {}, {} samples a step\n\n", run, strategy, devices, step.batch_samples);
  text += memory_table(*this);
  const auto shown = static_cast<int>(step.ranks.size());
  if (shown < step.world_size) text += fmt::format("ranks {} to {} are as these\n", shown, step.world_size - 1);
  if (step.store && step.store->type == "local")
    text += fmt::format("the store holds {:.1f} MB in host memory\n",
                        static_cast<double>(step.store->bytes.front()) / kMega);
  return text + "\n" + operator_table(step.ranks.front()) + "\n" + message_table(*this) + "\n" +
         (step.pipeline ? pipeline_text(*this) : "") + (places ? store_text(*this) : "") + times_text(*this);
}

std::string PlanReport::json() const {
  ordered_json ranks = ordered_json::array(), time = nullptr;
  for (size_t r = 0; r < step.ranks.size(); ++r) ranks.push_back(rank_json(*this, r));
  if (times)
    time = {{"step_s", times->step_s},
            {"comm_s", times->comm_s},
            {"other_s", times->host_s},
            {"samples_per_s", static_cast<double>(step.batch_samples) / times->step_s},
            {"epoch_s", static_cast<double>(step.steps_per_epoch) * times->step_s},
            {"figures", figures_source},
            {"operators", shares_json(shares)}};
  const ordered_json document = {{"schema", 1},
                                 {"run", run},
                                 {"strategy", strategy},
                                 {"devices", devices},
                                 {"world_size", step.world_size},
                                 {"hosts", hosts},
                                 {"global_batch", step.batch_samples},
                                 {"steps_per_epoch", step.steps_per_epoch},
                                 {"time", time},
                                 {"store_bytes", step.store ? ordered_json(step.store->bytes) : ordered_json(nullptr)},
                                 {"served", places ? served_json(*this) : ordered_json(nullptr)},
                                 {"pipeline", step.pipeline ? pipeline_json(*this) : ordered_json(nullptr)},
                                 {"ranks", ranks}};
  return document.dump(2, ' ', false, ordered_json::error_handler_t::replace);
}

}  // namespace dptrain::plan
