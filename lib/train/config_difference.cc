#include "train/config_difference.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <ranges>
#include <set>
#include <string_view>
#include <utility>

namespace dptrain::train {
namespace {

using Values = std::vector<std::pair<std::string, std::string>>;

std::string key_below(const std::string& key, const std::string& name) { return key.empty() ? name : key + "." + name; }

std::string key_of_item(const std::string& key, size_t index) { return fmt::format("{}[{}]", key, index); }

/// The node of each configuration at each key.
using Nodes = std::map<std::string, std::vector<const ConfigNode*>>;

void add_nodes(const ConfigNode& node, const std::string& key, Nodes& nodes) {
  nodes[key].push_back(&node);
  if (node.kind == ConfigNode::Kind::list)
    for (size_t i = 0; i < node.list.size(); ++i) add_nodes(node.list[i], key_of_item(key, i), nodes);
  if (node.kind == ConfigNode::Kind::map)
    for (const auto& [name, value] : node.map) add_nodes(value, key_below(key, name), nodes);
}

/// The numbers of items that lists have in common at their beginning and at their end.
struct CommonItems {
  size_t front = 0;
  size_t back = 0;
};

CommonItems common_items(const std::vector<const ConfigNode*>& lists) {
  const size_t shortest = std::ranges::min(lists | std::views::transform([](auto* list) { return list->list.size(); }));
  const auto all_have = [&](const auto& item_of) {
    const std::string first = item_of(*lists.front()).text();
    return std::ranges::all_of(lists, [&](const ConfigNode* list) { return item_of(*list).text() == first; });
  };
  CommonItems common;
  while (common.front < shortest &&
         all_have([&](const ConfigNode& list) -> const ConfigNode& { return list.list[common.front]; }))
    ++common.front;
  while (common.front + common.back < shortest && all_have([&](const ConfigNode& list) -> const ConfigNode& {
           return list.list[list.list.size() - 1 - common.back];
         }))
    ++common.back;
  return common;
}

/// Whether all nodes are lists, and some items are mappings.
bool are_lists_of_mappings(const std::vector<const ConfigNode*>& nodes) {
  constexpr auto kIsMap = [](const ConfigNode& item) { return item.kind == ConfigNode::Kind::map; };
  return std::ranges::all_of(nodes, [](auto* node) { return node->kind == ConfigNode::Kind::list; }) &&
         std::ranges::any_of(nodes, [&](auto* node) { return std::ranges::any_of(node->list, kIsMap); });
}

/// Whether items have the same kind and, if a name comes before their options as in `linear: {features: 64}`, the same
/// name.
bool are_alike(const std::vector<const ConfigNode*>& items) {
  const ConfigNode& first = *items.front();
  return std::ranges::all_of(items, [&](const ConfigNode* item) {
    if (item->kind != first.kind) return false;
    return item->kind != ConfigNode::Kind::map || item->map.size() != 1 || first.map.size() != 1 ||
           item->map.front().first == first.map.front().first;
  });
}

/// Flattens configurations into keys and values for a comparison.
class Flattening {
 public:
  explicit Flattening(const std::vector<ConfigNode>& configs) {
    for (const ConfigNode& config : configs) add_nodes(config, "", nodes_);
    count_ = configs.size();
  }

  Values of(const ConfigNode& config) const {
    Values values;
    flatten(config, "", values);
    return values;
  }

 private:
  void flatten(const ConfigNode& node, const std::string& key, Values& values) const {
    const auto& all = nodes_.at(key);
    if (node.kind == ConfigNode::Kind::map) {
      for (const auto& [name, value] : node.map) {
        // {name: ddp, overlap: false} is `ddp` with an option.
        if (name == "name" && !key.empty())
          values.emplace_back(key, value.text());
        else
          flatten(value, key_below(key, name), values);
      }
    } else if (all.size() < count_ || !are_lists_of_mappings(all)) {
      values.emplace_back(key, node.text());
    } else if (std::ranges::all_of(all, [&](auto* other) { return other->list.size() == node.list.size(); })) {
      for (size_t i = 0; i < node.list.size(); ++i) {
        const std::string key_of = key_of_item(key, i);
        if (are_alike(nodes_.at(key_of)))
          flatten(node.list[i], key_of, values);
        else
          values.emplace_back(key_of, node.list[i].text());
      }
    } else {
      const CommonItems common = common_items(all);
      ConfigNode between{.kind = ConfigNode::Kind::list};
      between.list.assign(node.list.begin() + static_cast<std::ptrdiff_t>(common.front),
                          node.list.end() - static_cast<std::ptrdiff_t>(common.back));
      values.emplace_back(fmt::format("{}[{}...]", key, common.front), between.text());
    }
  }

  Nodes nodes_;
  size_t count_ = 0;
};

std::string value_of(const Values& values, const std::string& key) {
  const auto found = std::ranges::find(values, key, &Values::value_type::first);
  return found == values.end() ? "-" : found->second;
}

}  // namespace

std::vector<DifferingKey> differing_keys(const std::vector<ConfigNode>& configs,
                                         const std::vector<std::string>& except) {
  std::vector<Values> flat(configs.size());
  std::vector<std::string> keys;
  const Flattening flattening(configs);
  for (size_t i = 0; i < configs.size(); ++i) {
    flat[i] = flattening.of(configs[i]);
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
  // Every data set may have options such as a limit, which are absent if they aren't given.
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
