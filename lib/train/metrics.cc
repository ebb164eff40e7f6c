#include "train/metrics.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace dptrain::train {
namespace {

using nlohmann::ordered_json;

void add_losses(ordered_json& json, const parallel::Score& score) {
  for (const auto& [name, loss] : output_losses(score)) json[name] = loss;
}

ordered_json pass_json(const Pass& pass, bool with_rate) {
  ordered_json json = {{"loss", pass.score.mean_loss()},
                       {"accuracy", pass.score.accuracy()},
                       {"samples", pass.score.samples},
                       {"seconds", pass.seconds}};
  if (with_rate) json["samples_per_s"] = pass.samples_per_s();
  add_losses(json, pass.score);
  return json;
}

ordered_json device_json(const DeviceMetrics& device) {
  ordered_json memory;
  for (const MemoryPurpose purpose : kMemoryPurposes)
    memory[std::string(memory_purpose_name(purpose))] = device.memory[purpose];
  return {{"device", device.device},   {"rank", device.rank},
          {"host", device.host},       {"process", device.process},
          {"samples", device.samples}, {"graph_steps", device.graph_steps},
          {"busy", device.busy},       {"peak_bytes", device.peak_bytes},
          {"memory", memory}};
}

ordered_json pipeline_json(const parallel::PipelineFigures& pipeline) {
  return {{"stages", pipeline.stages},
          {"stages_per_device", pipeline.stages_per_device},
          {"micro_batches", pipeline.micro_batches},
          {"schedule", pipeline.schedule},
          {"predicted_bubble", pipeline.predicted_bubble},
          {"bubble", pipeline.bubble ? ordered_json(*pipeline.bubble) : ordered_json(nullptr)}};
}

ordered_json store_json(const std::optional<parallel::StoreUse>& store) {
  if (!store) return nullptr;
  return {{"type", store->type},
          {"placement", store->placement.empty() ? ordered_json(nullptr) : ordered_json(store->placement)},
          {"bytes", store->bytes}};
}

ordered_json staleness_json(const parallel::Staleness& staleness) {
  return {{"mean", staleness.mean()}, {"max", staleness.max()}, {"histogram", staleness.pushes}};
}

ordered_json straggler_json(const std::optional<Straggler>& straggler, const std::vector<DeviceMetrics>& devices) {
  if (!straggler) return nullptr;
  const DeviceMetrics& device = devices[static_cast<size_t>(straggler->rank)];
  return {{"rank", straggler->rank},
          {"device", device.device},
          {"host", device.host},
          {"slower", straggler->slower},
          {"waited_s", straggler->waited_s}};
}

ordered_json noise_json(const parallel::GradientNoise& noise) {
  if (noise.samples == 0) return nullptr;
  const auto scale = noise.scale();
  return {{"scale", scale ? ordered_json(*scale) : ordered_json(nullptr)},
          {"variance", noise.variance()},
          {"squared_norm", noise.squared_norm()}};
}

std::optional<Straggler> straggler_of(const EpochMetrics& metrics, const std::vector<parallel::RankCosts>& costs) {
  std::vector<double> compute_s;
  int64_t samples = 0;
  for (const parallel::RankCosts& of_rank : costs) {
    const bool has_part = of_rank.samples > 0 || metrics.pipeline;  // in a pipeline only the last stage counts samples
    compute_s.push_back(has_part ? of_rank.times[parallel::Phase::compute] : 0);
    samples += of_rank.samples;
  }
  // If the epoch was begun on other devices, the costs are only from the steps since then.
  const int64_t steps = (samples + metrics.global_batch - 1) / std::max<int64_t>(metrics.global_batch, 1);
  return find_straggler(compute_s, metrics.train.seconds, steps, static_cast<int>(metrics.pipeline_devices()));
}

}  // namespace

void add_costs(EpochMetrics& metrics, const std::vector<parallel::RankCosts>& costs,
               const std::vector<RankPlace>& places, double data_wait_s) {
  using parallel::Phase;
  const double seconds = metrics.train.seconds, ranks = static_cast<double>(costs.size());
  for (size_t rank = 0; rank < costs.size(); ++rank) {
    const parallel::RankCosts& of_rank = costs[rank];
    const double compute = of_rank.times[Phase::compute], optimizer = of_rank.times[Phase::optimizer];
    metrics.time.compute_s += compute / ranks;
    metrics.time.exposed_comm_s += of_rank.times[Phase::communication] / ranks;
    metrics.time.optimizer_s += optimizer / ranks;
    metrics.skipped_steps = std::max(metrics.skipped_steps, of_rank.skipped_steps);
    metrics.comm_bytes += of_rank.communication.bytes;
    metrics.collectives = std::max(metrics.collectives, of_rank.communication.collectives);
    metrics.devices.push_back({.device = places[rank].device,
                               .host = places[rank].host,
                               .process = places[rank].process,
                               .rank = static_cast<int>(rank),
                               .samples = of_rank.samples,
                               .graph_steps = of_rank.graph_steps,
                               .busy = seconds > 0 ? (compute + optimizer) / seconds : 0,
                               .compute_s = compute,
                               .peak_bytes = of_rank.peak_bytes,
                               .memory = of_rank.memory_at_peak});
  }
  // While the host waits for data, a GPU may still compute earlier steps.
  const double idle = seconds - metrics.time.compute_s - metrics.time.exposed_comm_s - metrics.time.optimizer_s;
  metrics.time.data_wait_s = std::clamp(data_wait_s, 0.0, std::max(idle, 0.0));
  metrics.time.other_s = idle - metrics.time.data_wait_s;
  metrics.straggler = straggler_of(metrics, costs);
}

double EpochMetrics::memory_imbalance() const {
  const auto [least, most] = std::ranges::minmax_element(devices, {}, &DeviceMetrics::peak_bytes);
  if (devices.empty() || least->peak_bytes == 0) return 1;
  return static_cast<double>(most->peak_bytes) / static_cast<double>(least->peak_bytes);
}

std::string EpochMetrics::json() const {
  ordered_json device_list = ordered_json::array();
  for (const auto& device : devices) device_list.push_back(device_json(device));
  const ordered_json line = {{"schema", 1},
                             {"run", run},
                             {"epoch", epoch},
                             {"step", step},
                             {"strategy", strategy},
                             {"world_size", world_size},
                             {"global_batch", global_batch},
                             {"learning_rate", learning_rate},
                             {"train", pass_json(train, true)},
                             {"validation", validation ? pass_json(*validation, false) : ordered_json(nullptr)},
                             {"test", test ? pass_json(*test, false) : ordered_json(nullptr)},
                             {"time",
                              {{"compute_s", time.compute_s},
                               {"exposed_comm_s", time.exposed_comm_s},
                               {"data_wait_s", time.data_wait_s},
                               {"optimizer_s", time.optimizer_s},
                               {"other_s", time.other_s}}},
                             {"comm", {{"bytes", comm_bytes}, {"collectives", collectives}}},
                             {"devices", device_list},
                             {"straggler", straggler_json(straggler, devices)},
                             {"memory_imbalance", memory_imbalance()},
                             {"kvstore", store_json(store)},
                             {"pipeline", pipeline ? pipeline_json(*pipeline) : ordered_json(nullptr)},
                             {"skipped_steps", skipped_steps},
                             {"staleness", staleness ? staleness_json(*staleness) : ordered_json(nullptr)},
                             {"batch_norm",
                              {{"mode", parallel::batch_norm_mode_name(batch_norm.mode)},
                               {"spread", batch_norm.spread ? ordered_json(*batch_norm.spread) : nullptr}}},
                             {"gradient_noise", noise_json(train.score.noise)},
                             {"weights_hash", weights_hash}};
  return line.dump();
}

std::vector<std::pair<std::string, double>> output_losses(const parallel::Score& score) {
  if (score.outputs.size() != 2) return {};
  return {{"mlm_loss", score.outputs[0].mean_loss()}, {"nsp_loss", score.outputs[1].mean_loss()}};
}

std::string step_json(const parallel::StepNumbers& numbers, const parallel::Score& score) {
  ordered_json line = {{"step", numbers.step},
                       {"epoch", numbers.epoch},
                       {"loss", score.mean_loss()},
                       {"learning_rate", numbers.learning_rate},
                       {"samples", score.samples}};
  add_losses(line, score);
  return line.dump();
}

}  // namespace dptrain::train
