#include "train/verification_plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "config/config_document.h"
#include "parallel/pipeline_schedule.h"
#include "train/model_facts.h"
#include "train/one_device.h"
#include "train/strategy_context.h"
#include "train/trainer.h"
#include "train/verified_cut.h"

namespace dptrain::train {
namespace {

constexpr const char* kFromVerify = "verify";

/// The pipeline goes through all devices.
constexpr int kAllDevices = 1;

/// A row of the table. ddp always allows unused parameters here, because whether they are allowed changes no numbers.
struct StandardRow {
  const char* name;
  const char* strategy;      ///< in YAML
  int pipeline_devices = 0;  ///< kAllDevices or a number of devices; 0: no pipeline
  int min_devices = 1;
  bool takes_shards = true;
  int stages_per_device = 1;
};

constexpr StandardRow kStandardRows[] = {
    {"data_parallel, gathered", "{name: data_parallel, criterion: gathered}"},
    {"data_parallel, parallel", "{name: data_parallel, criterion: parallel}"},
    {"ddp", "{name: ddp, find_unused: true}"},
    {"ddp, overlap: false", "{name: ddp, find_unused: true, overlap: false}"},
    {"ddp, overlap: next_forward", "{name: ddp, find_unused: true, overlap: next_forward}", 0, 1, false},
    {"ddp, shard_optimizer", "{name: ddp, find_unused: true, shard_optimizer: true}"},
    {"fsdp", "{name: fsdp}", 0, 1, false},
    {"fsdp, weights kept", "{name: fsdp, reshard_after_forward: false}", 0, 1, false},
    {"kvstore, device", "{name: kvstore, type: device}"},
    {"kvstore, round_robin", "{name: kvstore, type: device, placement: round_robin}"},
    {"kvstore, local", "{name: kvstore, type: local}"},
    {"model_parallel, 1f1b", "{name: model_parallel, schedule: 1f1b}", kAllDevices, 2},
    {"model_parallel, zero_bubble", "{name: model_parallel, schedule: zero_bubble}", kAllDevices, 2},
    {"model_parallel, interleaved", "{name: model_parallel, schedule: interleaved}", kAllDevices, 2, true,
     parallel::kInterleavedStages},
    {"model_parallel, gpipe", "{name: model_parallel, schedule: gpipe}", kAllDevices, 2},
    {"hybrid", "{name: hybrid, model_parallel: 2}", 2, 4},
};

void set(ConfigNode& config, const std::string& assignment) { override_config(config, assignment, kFromVerify); }

Experiment read(const ConfigNode& config, const std::string& default_name) {
  Experiment experiment;
  const ConfigSession session(config,
                              [&](ConfigReader& reader) { experiment = read_experiment(reader, default_name); });
  return experiment;
}

std::string stages_of(const ModelFacts& facts, int stages) {
  return fmt::format("strategy.stages=[{}]", fmt::join(verified_cut(facts.has_parameters, stages), ", "));
}

/// Makes the rows of one configuration.
class Planner {
 public:
  Planner(const ConfigNode& config, const std::string& default_name)
      : config_(config),
        default_name_(default_name),
        own_(read(on_one_device(config, default_name), default_name)),
        shards_(own_.shards),
        data_(own_.dataset.open()) {
    set(config_, "links=");
    set(config_, "memory_limit=");
    set(config_, "shards=0");
    // What a trial would choose is already one of the rows.
    if (own_.strategy.trial_steps) {
      set(config_, "strategy=");
      own_ = read(config_, default_name);
    }
    if (own_.split.measured) set(config_, "split=even");
    // Reads the list under a strategy that takes any number of devices, to resolve it.
    ConfigNode listed = config_;
    set(listed, "strategy=ddp");
    devices_ = static_cast<int>(read(listed, default_name_).devices.size());
    require_trainable(own_, *data_.train);
    facts_ = facts_of(own_, *data_.train);
  }

  const Datasets& data() const { return data_; }

  Experiment single() const {
    ConfigNode config = config_;
    set(config, "strategy=single");
    set(config, "batch_norm=local");
    return read(on_one_device(config, default_name_), default_name_);
  }

  PlannedRow standard(const StandardRow& row) const {
    const int of_pipeline = row.pipeline_devices == kAllDevices ? devices_ : row.pipeline_devices;
    const int stages = of_pipeline * row.stages_per_device;
    if (devices_ < row.min_devices)
      return unfit(row.name, fmt::format("needs at least {} devices, got {}", row.min_devices, devices_));
    if (stages > 0 && devices_ % of_pipeline != 0)
      return unfit(row.name, fmt::format("needs a multiple of {} devices, got {}", of_pipeline, devices_));
    if (stages > facts_.units())
      return unfit(row.name,
                   stages > of_pipeline
                       ? fmt::format("the model has {} stages, fewer than {}, {} on each of {} devices", facts_.units(),
                                     stages, row.stages_per_device, of_pipeline)
                       : fmt::format("the model has {} stages, fewer than the {} devices", facts_.units(), devices_));
    ConfigNode config = config_;
    set(config, fmt::format("strategy={}", row.strategy));
    if (stages > 0) {
      set(config, stages_of(facts_, stages));
      set(config, "split=even");
    }
    return planned(row.name, std::move(config), parallel::BatchNormMode::sync);
  }

  /// Adds the configuration's own strategy, if it has options.
  void add_own(std::vector<PlannedRow>& rows) const {
    const ConfigNode* strategy = config_.find("strategy");
    if (strategy == nullptr) return;
    const bool has_options = strategy->kind == ConfigNode::Kind::map && strategy->map.size() > 1;
    // The standard rows don't have it.
    if (!has_options && !own_.strategy.averaging) return;
    if (own_.strategy.name == "single") return;
    ConfigNode config = config_;
    const ConfigNode* stages = strategy->find("stages");
    const bool automatic = stages == nullptr || stages->kind == ConfigNode::Kind::scalar;
    if (own_.strategy.is_pipeline() && automatic) set(config, stages_of(facts_, own_.strategy.stages));
    // It changes no weight, and isn't measured where batch norms share their statistics.
    if (own_.strategy.measures_noise) set(config, "strategy.gradient_noise=false");
    // Processes that don't wait for each other can't share batch statistics.
    const bool in_step = own_.strategy.in_step && !own_.strategy.averaging;
    rows.push_back(planned(fmt::format("{}, as configured", own_.strategy.name), std::move(config),
                           in_step ? parallel::BatchNormMode::sync : parallel::BatchNormMode::local));
    rows.back().compression = own_.strategy.compression;
    // Replicas that train by themselves each have their own gradients.
    rows.back().differs_by_design = (!in_step && facts_.batch_norms) || own_.strategy.averaging;
  }

  /// Adds `single` with the configuration's shards, and the rows that must match it bit for bit.
  void add_sharded(std::vector<PlannedRow>& rows) const {
    if (shards_ == 0) return;
    ConfigNode config = config_;
    set(config, "strategy=single");
    rows.push_back(sharded("single", on_one_device(config, default_name_)));
    rows.back().shards = 0;
    // Each shard has statistics of its own.
    rows.back().differs_by_design = facts_.batch_norms;
    for (const StandardRow& row : kStandardRows) {
      if (row.pipeline_devices > 0 || !row.takes_shards) continue;
      config = config_;
      set(config, fmt::format("strategy={}", row.strategy));
      rows.push_back(sharded(row.name, std::move(config)));
    }
  }

  /// Adds a row with the configuration's own kind of batch norms, if it isn't `sync`.
  void add_batch_norm(std::vector<PlannedRow>& rows) const {
    if (!facts_.batch_norms || devices_ < 2 || own_.batch_norm == parallel::BatchNormMode::sync) return;
    // The row "as configured" already has this kind.
    if (own_.strategy.averaging) return;
    ConfigNode config = config_;
    std::string name = own_.strategy.name;
    if (name == "single" || own_.strategy.is_pipeline()) {
      name = "ddp";
      set(config, "strategy={name: ddp, find_unused: true}");
    }
    rows.push_back(planned(fmt::format("{}, batch_norm: {}", name, parallel::batch_norm_mode_name(own_.batch_norm)),
                           std::move(config), own_.batch_norm));
    rows.back().differs_by_design = true;
  }

 private:
  PlannedRow sharded(const char* name, ConfigNode config) const {
    set(config, fmt::format("shards={}", shards_));
    PlannedRow row =
        planned(fmt::format("{}, shards: {}", name, shards_), std::move(config), parallel::BatchNormMode::local);
    row.shards = shards_;
    return row;
  }
  static PlannedRow unfit(std::string name, std::string why) {
    return {.name = std::move(name), .unfit = std::move(why)};
  }

  PlannedRow planned(std::string name, ConfigNode config, parallel::BatchNormMode mode) const {
    set(config, fmt::format("batch_norm={}", parallel::batch_norm_mode_name(mode)));
    PlannedRow row{.name = std::move(name)};
    try {
      row.experiment = read(config, default_name_);
    } catch (const Error& error) {
      if (error.code() != ExitCode::config) throw;
      return unfit(std::move(row.name), error.what());
    }
    row.micro_batches = row.experiment.accumulate * row.experiment.strategy.micro_batches;
    return row;
  }

  ConfigNode config_;
  std::string default_name_;
  Experiment own_;
  int shards_;  ///< of the configuration; 0: none
  Datasets data_;
  int devices_ = 0;
  ModelFacts facts_;
};

}  // namespace

VerificationPlan plan_verification(const ConfigNode& config, const std::string& default_name) {
  const Planner planner(config, default_name);
  VerificationPlan plan{.data = planner.data(), .single = planner.single(), .rows = {}};
  for (const StandardRow& row : kStandardRows) plan.rows.push_back(planner.standard(row));
  planner.add_own(plan.rows);
  planner.add_sharded(plan.rows);
  planner.add_batch_norm(plan.rows);
  return plan;
}

}  // namespace dptrain::train
