#include "train/comparison_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "config/config_document.h"
#include "config/yaml_events.h"
#include "config/yaml_scalar.h"
#include "train/one_device.h"

namespace dptrain::train {
namespace {

constexpr const char* kStrategies = "--strategies";

/// Takes `as` out of an item of the list. By default the strategy's name is the run's name.
std::string take_name(ConfigNode& item) {
  if (item.kind == ConfigNode::Kind::scalar) return item.scalar;
  const auto as = std::ranges::find(item.map, "as", &std::pair<std::string, ConfigNode>::first);
  if (as == item.map.end()) {
    const ConfigNode* name = item.find("name");
    return name != nullptr ? name->scalar : "strategy";
  }
  if (as->second.kind != ConfigNode::Kind::scalar)
    throw Error(ExitCode::config, Mistake{.where = fmt::format("{}: as", kStrategies),
                                          .expected = "expected the name of a run",
                                          .got = as->second.text(),
                                          .advice = {}});
  const std::string name = as->second.scalar;
  item.map.erase(as);
  return name;
}

PlannedTraining plan_training(const ComparedConfig& compared, uint64_t repetition) {
  PlannedTraining training;
  const auto read = [&](const ConfigNode& config) {
    const ConfigSession session(
        config, [&](ConfigReader& reader) { training.experiment = read_experiment(reader, compared.name); });
    training.source = config;
    training.config = session.resolved_yaml();
    training.config_with_origins = session.resolved_yaml_with_origins();
  };
  ConfigNode config = on_one_device(compared.config, compared.name);
  read(config);
  if (repetition == 0) return training;
  override_config(config, fmt::format("seed={}", training.experiment.seed + repetition), "--repeat");
  read(config);
  return training;
}

void require_other_name(const std::vector<PlannedRun>& runs, const std::string& name, bool of_strategy) {
  if (std::ranges::find(runs, name, &PlannedRun::name) == runs.end()) return;
  throw Error(
      ExitCode::config,
      Mistake{.where = "compare",
              .expected = "each run needs a name of its own",
              .got = fmt::format("'{}' twice", name),
              .advice = of_strategy ? fmt::format("rename one of them: {} '{{name: {}, as: other}}'", kStrategies, name)
                                    : "change name: in one of the configurations"});
}

/// Throws 78 for a run name that is also the name of a file that compare writes beside the runs' directories.
void require_own_directory(const std::string& name) {
  if (name != "compare.json" && name != "compare.md") return;
  throw Error(ExitCode::config, Mistake{.where = "compare",
                                        .expected = "a run's directory is named after the run",
                                        .got = fmt::format("'{}', which is a file of the comparison", name),
                                        .advice = "choose another name"});
}

std::vector<DifferingKey> differences_of(const std::vector<PlannedRun>& runs) {
  std::vector<ConfigNode> configs;
  for (const PlannedRun& run : runs) {
    const PlannedTraining& first = run.trainings.front();
    configs.push_back(parse_config(first.config, run.name));
    // The same batch may be written as batch_size or as per_device_batch_size.
    override_config(configs.back(), fmt::format("batch_size={}", first.experiment.batch_size));
  }
  return differing_keys(configs, {"name", "strategy", "devices", "threads", "per_device_batch_size"});
}

}  // namespace

std::vector<ComparedConfig> configs_by_strategy(const ConfigNode& config, std::string_view list) {
  const ConfigNode items = parse_yaml_value(fmt::format("[{}]", list), kStrategies, kStrategies);
  std::vector<ComparedConfig> configs;
  for (ConfigNode item : items.list) {
    if (item.kind != ConfigNode::Kind::scalar && item.kind != ConfigNode::Kind::map)
      throw Error(ExitCode::config, Mistake{.where = kStrategies,
                                            .expected = "expected strategies as names or maps",
                                            .got = item.text(),
                                            .advice = "write for instance 'single,ddp,{name: ddp, overlap: false, as: "
                                                      "plain}'"});
    ComparedConfig compared{.name = take_name(item), .config = config, .of_strategy = true};
    override_config(compared.config, fmt::format("strategy={}", item.text()), kStrategies);
    override_config(compared.config, fmt::format("name={}", yaml_text(compared.name)), kStrategies);
    configs.push_back(std::move(compared));
  }
  return configs;
}

ComparisonPlan plan_comparison(const std::vector<ComparedConfig>& configs, const std::filesystem::path& out,
                               int64_t repetitions) {
  ComparisonPlan plan;
  for (const ComparedConfig& compared : configs) {
    PlannedRun run;
    for (int64_t repetition = 0; repetition < repetitions; ++repetition) {
      PlannedTraining training = plan_training(compared, static_cast<uint64_t>(repetition));
      run.name = training.experiment.name;
      training.directory = out / run.name;
      if (repetitions > 1) training.directory /= fmt::format("seed-{}", training.experiment.seed);
      run.trainings.push_back(std::move(training));
    }
    require_other_name(plan.runs, run.name, compared.of_strategy);
    require_own_directory(run.name);
    plan.runs.push_back(std::move(run));
  }
  plan.differences = differences_of(plan.runs);
  return plan;
}

}  // namespace dptrain::train
