#include "train/strategy_choice_json.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

#include "base/error.h"
#include "config/yaml_events.h"
#include "config/yaml_scalar.h"

namespace dptrain::train {
namespace {

using nlohmann::ordered_json;

constexpr std::pair<TrialVerdict, const char*> kVerdicts[] = {{TrialVerdict::chosen, "chosen"},
                                                              {TrialVerdict::within_noise, "within_noise"},
                                                              {TrialVerdict::slower, "slower"},
                                                              {TrialVerdict::failed, "failed"},
                                                              {TrialVerdict::not_tried, "not_tried"}};

const char* verdict_name(TrialVerdict verdict) {
  for (const auto& [value, name] : kVerdicts)
    if (value == verdict) return name;
  return "";
}

TrialVerdict verdict_of(const std::string& name) {
  for (const auto& [value, known] : kVerdicts)
    if (known == name) return value;
  throw std::invalid_argument(fmt::format("a verdict '{}'", name));
}

ordered_json json_of(const ConfigNode& node) {
  ordered_json converted;
  switch (node.kind) {
    case ConfigNode::Kind::null: return nullptr;
    case ConfigNode::Kind::map:
      for (const auto& [key, value] : node.map) converted[key] = json_of(value);
      return converted;
    case ConfigNode::Kind::list:
      converted = ordered_json::array();
      for (const ConfigNode& item : node.list) converted.push_back(json_of(item));
      return converted;
    case ConfigNode::Kind::scalar: break;
  }
  if (node.quoted) return node.scalar;
  if (const auto integer = plain_integer(node.scalar)) return *integer;
  if (const auto number = plain_number(node.scalar)) return *number;
  if (const auto boolean = plain_boolean(node.scalar)) return *boolean;
  return node.scalar;
}

/// A value of a configuration as one line of YAML.
std::string yaml_of(const ordered_json& document) {
  std::vector<std::string> parts;
  if (document.is_object()) {
    for (const auto& [key, value] : document.items())
      parts.push_back(fmt::format("{}: {}", yaml_text(key), yaml_of(value)));
    return fmt::format("{{{}}}", fmt::join(parts, ", "));
  }
  if (document.is_array()) {
    for (const ordered_json& item : document) parts.push_back(yaml_of(item));
    return fmt::format("[{}]", fmt::join(parts, ", "));
  }
  return document.is_string() ? yaml_text(document.get<std::string>()) : document.dump();
}

ordered_json config_json(const std::string& yaml) { return json_of(parse_yaml_value(yaml, "auto", "auto")); }

ordered_json trial_json(const StrategyTrial& trial) {
  ordered_json document = {{"strategy", config_json(trial.strategy)}, {"split", config_json(trial.split)}};
  if (const auto& figures = trial.figures)
    document.update({{"seconds_per_step", figures->seconds_per_step},
                     {"samples_per_s", figures->samples_per_s},
                     {"exposed_comm_s", figures->exposed_comm_s},
                     {"bytes_per_step", figures->bytes_per_step},
                     {"peak_bytes", figures->peak_bytes}});
  document["verdict"] = verdict_name(trial.verdict);
  document["reason"] = trial.reason;
  return document;
}

StrategyTrial trial_of(const ordered_json& document) {
  StrategyTrial trial{.strategy = yaml_of(document.at("strategy")),
                      .split = yaml_of(document.at("split")),
                      .verdict = verdict_of(document.at("verdict")),
                      .reason = document.at("reason")};
  if (document.contains("seconds_per_step"))
    trial.figures = TrialFigures{.seconds_per_step = document.at("seconds_per_step"),
                                 .samples_per_s = document.at("samples_per_s"),
                                 .exposed_comm_s = document.at("exposed_comm_s"),
                                 .bytes_per_step = document.at("bytes_per_step"),
                                 .peak_bytes = document.at("peak_bytes")};
  return trial;
}

}  // namespace

std::string choice_json(const StrategyChoice& choice) {
  ordered_json candidates = ordered_json::array();
  for (const StrategyTrial& trial : choice.trials) candidates.push_back(trial_json(trial));
  const ordered_json document = {{"chosen", config_json(choice.strategy)},
                                 {"split", config_json(choice.split)},
                                 {"candidates", std::move(candidates)}};
  return document.dump();
}

StrategyChoice parse_choice(const std::string& text, const std::string& where) {
  try {
    const ordered_json document = ordered_json::parse(text);
    StrategyChoice choice{
        .strategy = yaml_of(document.at("chosen")), .split = yaml_of(document.at("split")), .trials = {}};
    for (const ordered_json& trial : document.at("candidates")) choice.trials.push_back(trial_of(trial));
    return choice;
  } catch (const std::exception&) {
    throw Error(ExitCode::bad_data, Mistake{.where = where,
                                            .expected = "expected the results of strategy trials",
                                            .got = "something else",
                                            .advice = "the file is damaged; use another checkpoint"});
  }
}

}  // namespace dptrain::train
