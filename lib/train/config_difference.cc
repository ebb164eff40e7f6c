#include "train/config_difference.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <string_view>
#include <utility>

namespace dptrain::train {
namespace {

using Values = std::vector<std::pair<std::string, std::string>>;

void flatten(const ConfigNode& node, const std::string& key, Values& values) {
  if (node.kind != ConfigNode::Kind::map) {
    values.emplace_back(key, node.text());
    return;
  }
  for (const auto& [name, value] : node.map) {
    // {name: ddp, overlap: false} is `ddp` with an option.
    if (name == "name" && !key.empty())
      values.emplace_back(key, value.text());
    else
      flatten(value, key.empty() ? name : key + "." + name, values);
  }
}

std::string value_of(const Values& values, const std::string& key) {
  const auto found = std::ranges::find(values, key, &Values::value_type::first);
  return found == values.end() ? "-" : found->second;
}

}  // namespace

std::vector<DifferingKey> differing_keys(const std::vector<ConfigNode>& configs,
                                         const std::vector<std::string>& except) {
  std::vector<Values> flat(configs.size());
  std::vector<std::string> keys;
  for (size_t i = 0; i < configs.size(); ++i) {
    flatten(configs[i], "", flat[i]);
    for (const auto& [key, value] : flat[i]) {
      if (std::ranges::find(except, key.substr(0, key.find('.'))) != except.end()) continue;
      if (std::ranges::find(keys, key) == keys.end()) keys.push_back(key);
    }
  }
  std::vector<DifferingKey> differing;
  for (const std::string& key : keys) {
    DifferingKey found{.key = key, .values = {}};
    for (const Values& values : flat) found.values.push_back(value_of(values, key));
    if (std::ranges::any_of(found.values, [&](const std::string& value) { return value != found.values.front(); }))
      differing.push_back(std::move(found));
  }
  return differing;
}

std::vector<DifferingKey> without_options_of_names(const std::vector<DifferingKey>& keys) {
  // All data sets may have a limit, and so on, which isn't there where it isn't given.
  constexpr std::string_view kWithCommonOptions = "dataset";
  const auto comes_with_a_name = [&](const DifferingKey& key) {
    const std::set<std::string> values(key.values.begin(), key.values.end());
    if (values.size() > 2 || !values.contains("-")) return false;
    return std::ranges::any_of(keys, [&](const DifferingKey& name) {
      return name.key != kWithCommonOptions && key.key.starts_with(name.key + ".");
    });
  };
  std::vector<DifferingKey> kept;
  std::ranges::remove_copy_if(keys, std::back_inserter(kept), comes_with_a_name);
  return kept;
}

}  // namespace dptrain::train
