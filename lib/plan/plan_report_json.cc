#include <nlohmann/json.hpp>

#include "plan/plan_report.h"
#include "plan/plan_totals.h"
#include "plan/planned_timeline.h"

namespace dptrain::plan {
namespace {

using nlohmann::ordered_json;

ordered_json pipeline_json(const PlanReport& report) {
  const parallel::PipelineFigures& pipeline = *report.step.pipeline;
  return {{"stages", pipeline.stages},
          {"stages_per_device", pipeline.stages_per_device},
          {"micro_batches", pipeline.micro_batches},
          {"schedule", pipeline.schedule},
          {"equal_stages_bubble", pipeline.predicted_bubble},
          {"bubble", report.times ? ordered_json(report.times->bubble()) : ordered_json(nullptr)}};
}

ordered_json averaging_json(const PlanReport& report) {
  return {{"period", report.step.averaging->period},
          {"warmup_steps", report.step.averaging->warmup_steps},
          {"other_step_s", report.between ? ordered_json(report.between->step_s) : ordered_json(nullptr)},
          {"mean_step_s", report.times ? ordered_json(report.mean_step_s()) : ordered_json(nullptr)}};
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

template <class T>
ordered_json or_null(const std::optional<T>& value) {
  return value ? ordered_json(*value) : ordered_json(nullptr);
}

ordered_json shares_json(const std::optional<EstimateShares>& shares) {
  if (!shares) return nullptr;
  return {
      {"same_operands", shares->same_operands}, {"same_operator", shares->same_operator}, {"figures", shares->figures}};
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

std::string PlanReport::json() const {
  ordered_json ranks = ordered_json::array(), time = nullptr;
  for (size_t r = 0; r < step.ranks.size(); ++r) ranks.push_back(rank_json(*this, r));
  if (times)
    time = {{"step_s", times->step_s},
            {"comm_s", times->comm_s},
            {"other_s", times->host_s},
            {"samples_per_s", static_cast<double>(step.batch_samples) / mean_step_s()},
            {"epoch_s", static_cast<double>(step.steps_per_epoch) * mean_step_s()},
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
                                 {"parameters", step.parameters.all},
                                 {"frozen", step.parameters.frozen},
                                 {"device_memory_bytes", or_null(device_memory_bytes)},
                                 {"host_memory_bytes", or_null(host_memory_bytes)},
                                 {"fits", or_null(fits())},
                                 {"time", time},
                                 {"store_bytes", step.store ? ordered_json(step.store->bytes) : ordered_json(nullptr)},
                                 {"served", places ? served_json(*this) : ordered_json(nullptr)},
                                 {"averaging", step.averaging ? averaging_json(*this) : ordered_json(nullptr)},
                                 {"pipeline", step.pipeline ? pipeline_json(*this) : ordered_json(nullptr)},
                                 {"ranks", ranks}};
  return document.dump(2, ' ', false, ordered_json::error_handler_t::replace);
}

std::string PlanReport::trace() const {
  const ordered_json about = {{"run", run},
                              {"strategy", strategy},
                              {"batch_size", step.batch_samples},
                              {"devices", devices},
                              {"planned_by", figures_source}};
  return planned_trace(step, *times, about.dump());
}

}  // namespace dptrain::plan
