#include "train/strategy_candidates.h"

#include <fmt/format.h>

#include "base/error.h"
#include "config/config_document.h"
#include "config/yaml_scalar.h"
#include "parallel/pipeline_schedule.h"
#include "train/model_facts.h"

namespace dptrain::train {
namespace {

constexpr const char* kFromAuto = "strategy auto";
constexpr double kBytesPerMb = 1024.0 * 1024.0;
constexpr double kBucketSizesMb[] = {1, 5, 25};

std::vector<std::string> standard_list(int64_t devices, const ModelFacts& facts) {
  std::vector<std::string> list = {"{name: ddp}"};
  for (const double mb : kBucketSizesMb) {
    list.push_back(fmt::format("{{name: ddp, bucket_mb: {}}}", mb));
    // All gradients fit into one bucket after the first one, so larger sizes make the same buckets.
    if (static_cast<double>(facts.gradient_bytes) <= mb * kBytesPerMb) break;
  }
  list.insert(list.end(), {"{name: ddp, overlap: false}", "{name: ddp, shard_optimizer: true}", "{name: fsdp}",
                           "{name: kvstore, type: device, placement: balanced}",
                           "{name: data_parallel, criterion: parallel}", "{name: data_parallel, criterion: gathered}",
                           "{name: model_parallel, schedule: 1f1b}", "{name: model_parallel, schedule: zero_bubble}"});
  // Pipelines with more stages than the model has units aren't listed.
  if (facts.units() >= parallel::kInterleavedStages * devices)
    list.emplace_back("{name: model_parallel, schedule: interleaved}");
  if (devices >= 4 && devices % 2 == 0)
    list.insert(list.end(), {"{name: hybrid, model_parallel: 2, schedule: 1f1b}",
                             "{name: hybrid, model_parallel: 2, schedule: zero_bubble}"});
  if (devices >= 4 && devices % 2 == 0 && facts.units() >= 2 * parallel::kInterleavedStages)
    list.emplace_back("{name: hybrid, model_parallel: 2, schedule: interleaved}");
  return list;
}

/// An item of the list in a configuration, ddp or `ddp: {bucket_mb: 5}`, in the form of the key `strategy`.
std::string strategy_of_item(const ConfigNode& item) {
  if (item.kind == ConfigNode::Kind::scalar) return fmt::format("{{name: {}}}", item.scalar);
  const auto& [name, options] = item.map.front();
  std::string text = fmt::format("{{name: {}", name);
  for (const auto& [key, value] : options.map) text += fmt::format(", {}: {}", yaml_text(key), value.text());
  return text + "}";
}

std::vector<std::string> written_list(const ConfigNode& config) {
  std::vector<std::string> list;
  const ConfigNode* strategy = config.find("strategy");
  const ConfigNode* items = strategy != nullptr ? strategy->find("candidates") : nullptr;
  if (items != nullptr)
    for (const ConfigNode& item : items->list) list.push_back(strategy_of_item(item));
  return list;
}

StrategyCandidate candidate(const ConfigNode& config, const Experiment& written, const std::string& strategy,
                            const ModelFacts& facts) {
  StrategyCandidate made{.trial = {.strategy = strategy, .split = written_split(config).value_or("even")}};
  try {
    made.experiment = experiment_under(config, written, strategy, made.trial.split);
  } catch (const Error& error) {
    if (error.code() != ExitCode::config) throw;
    made.trial.verdict = TrialVerdict::failed;
    made.trial.reason = error.what();
    return made;
  }
  if (made.experiment.strategy.is_pipeline() && facts.batch_norms)
    made.trial.reason = "not tried: its batch statistics would be those of micro-batches";
  else if (made.experiment.strategy.averaging)
    made.trial.reason = "not tried: averaging the weights every few steps would change the result";
  else if (made.experiment.strategy.compression != parallel::CompressionOptions::Method::none)
    made.trial.reason = "not tried: compressed gradients would change the result";
  else if (made.experiment.strategy.defers_updates)
    made.trial.reason = "not tried: trials time single steps, but it updates the weights during the next step";
  return made;
}

}  // namespace

std::optional<std::string> written_split(const ConfigNode& config) {
  const ConfigNode* split = config.find("split");
  if (split == nullptr || split->kind == ConfigNode::Kind::null) return std::nullopt;
  return split->text();
}

Experiment experiment_under(const ConfigNode& config, const Experiment& written, const std::string& strategy,
                            const std::string& split) {
  ConfigNode named = config;
  override_config(named, fmt::format("strategy={}", strategy), kFromAuto);
  override_config(named, fmt::format("split={}", split), kFromAuto);
  Experiment read;
  const ConfigSession session(named, [&](ConfigReader& reader) { read = read_experiment(reader, written.name); });
  // Everything else stays, including what was looked up after reading.
  Experiment experiment = written;
  experiment.strategy = read.strategy;
  experiment.split = read.split;
  return experiment;
}

std::vector<StrategyCandidate> strategy_candidates(const ConfigNode& config, const Experiment& written,
                                                   const Dataset& data) {
  const ModelFacts facts = facts_of(written, data);
  const auto devices = static_cast<int64_t>(written.devices.size());
  std::vector<std::string> list = {"{name: single}"};
  if (devices > 1) list = written_list(config);
  if (list.empty()) list = standard_list(devices, facts);
  std::vector<StrategyCandidate> candidates;
  for (const std::string& strategy : list) candidates.push_back(candidate(config, written, strategy, facts));
  return candidates;
}

}  // namespace dptrain::train
