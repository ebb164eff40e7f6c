#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>
#include <vector>

#include "base/error.h"
#include "config/config_document.h"
#include "config/key_shape.h"
#include "config/yaml_events.h"

namespace dptrain {
namespace {

using Kind = ConfigNode::Kind;

[[noreturn]] void refuse(const std::string& where, std::string expected, std::string got, std::string advice) {
  throw Error(ExitCode::config, Mistake{where, std::move(expected), std::move(got), std::move(advice)});
}

/// One step to a value: to the value under a key, or to an item of a list.
struct Step {
  std::string path;         ///< the path including this step, "model.layers[3]"
  std::string key = {};     ///< empty if `path` ends with an index
  size_t index = SIZE_MAX;  ///< SIZE_MAX also if the written number is larger
};

/// The steps of "a.b[3]": a, b and 3. An empty key, and brackets with anything but digits, are mistakes.
std::vector<Step> steps_of(std::string_view way, const std::string& source) {
  std::vector<Step> steps;
  for (size_t end = 0;; ++end) {
    const size_t begin = end;
    end = std::min(way.find_first_of(".[", begin), way.size());
    if (begin == end || steps.size() >= kConfigLimitDepth)
      refuse(source, "expected a key like strategy.bucket_mb before the '='", "'" + cut(std::string(way)) + "'",
             fmt::format("write for instance {} learning_rate=0.1", source));
    steps.push_back({.path = std::string(way.substr(0, end)), .key = std::string(way.substr(begin, end - begin))});
    while (end < way.size() && way[end] == '[') {
      Step step;
      const char* const last = way.data() + way.size();
      const auto [behind, error] = std::from_chars(way.data() + end + 1, last, step.index);
      if (error == std::errc::invalid_argument || behind == last || *behind != ']') break;
      end = static_cast<size_t>(behind - way.data()) + 1;
      step.path = way.substr(0, end);
      steps.push_back(std::move(step));
    }
    if (end == way.size()) return steps;
    if (way[end] != '.')
      refuse(source, "expected a number from 0 in brackets, followed by a dot or '='",
             "'" + cut(std::string(way)) + "'", fmt::format("write for instance {} 'model.layers[0]=relu'", source));
  }
}

/// Walks down a tree to the value that an override sets, and makes mappings on the way. Messages begin with `where`.
class Descent {
 public:
  Descent(ConfigNode& root, std::string where, const std::string& source)
      : node_(&root), where_(std::move(where)), origin_{.source = source} {}

  void to_item(const Step& step);
  void to_key(const Step& step, bool holds_list);
  void set(ConfigNode value);

 private:
  /// Where the current node is. An item of a list is a name, or a name in front of its options.
  enum class Place { elsewhere, item, behind_name };

  void become_map(const std::string& key, bool holds_list);
  void go(ConfigNode& node, Place place, const Step& step);

  ConfigNode* node_;
  ConfigNode* outer_ = nullptr;
  Place place_ = Place::elsewhere;
  std::string path_ = {};
  size_t index_ = 0;
  std::string where_;
  ConfigOrigin origin_;
};

void Descent::go(ConfigNode& node, Place place, const Step& step) {
  outer_ = node_;
  node_ = &node;
  place_ = place;
  path_ = step.path;
  index_ = step.index;
}

void Descent::to_item(const Step& step) {
  const std::string brackets = step.path.substr(path_.size());
  const size_t count = node_->list.size();
  if (node_->kind != Kind::list)
    refuse(where_, fmt::format("expected a list in front of {}", brackets), got_words(*node_),
           node_->kind == Kind::map ? fmt::format("write {}.KEY for one of its keys", path_)
                                    : fmt::format("set {} as a whole", path_));
  if (step.index >= count)
    refuse(where_, fmt::format("expected an index below {}, the number of items", count), brackets,
           count == 0 ? fmt::format("set {} as a whole", path_)
                      : fmt::format("write {}[{}] for the last item", path_, count - 1));
  go(node_->list[step.index], Place::item, step);
}

/// Turns the current node, on the way to `key`, into a mapping:
///   - nothing becomes an empty mapping,
///   - `ddp` becomes {name: ddp},
///   - an item `relu` becomes {relu: null},
///   - a shorthand, the 128 of `linear: 128`, gets the key "", since only the reader knows its option. But if it is a
///     list and `key` holds a list, it becomes the value of `key`.
void Descent::become_map(const std::string& key, bool holds_list) {
  const bool is_list = node_->kind == Kind::list, is_shorthand = place_ == Place::behind_name;
  if (is_list && !is_shorthand) {
    const bool is_number = key.find_first_not_of("0123456789") == std::string::npos;
    refuse(where_, "expected a mapping or a name above this key", got_words(*node_),
           fmt::format("write {}[{}] for one of its items", path_, is_number ? key : "0"));
  }
  if (node_->kind == Kind::scalar && place_ == Place::item && node_->scalar != key)
    refuse(where_, fmt::format("expected an item that has the key or the name '{}'", cut(key)), got_words(*node_),
           fmt::format("set {} as a whole", path_));
  if (is_list || node_->kind == Kind::scalar) {
    ConfigNode map{.kind = Kind::map, .origin = node_->origin};
    if (place_ == Place::item) {
      map.map.emplace_back(key, ConfigNode{.origin = node_->origin});
    } else if (is_list && holds_list) {
      map.map.emplace_back(key, std::move(*node_)).second.origin = origin_;
    } else {
      map.map.emplace_back(is_shorthand ? "" : "name", std::move(*node_));
      map.has_shorthand = is_shorthand;
    }
    *node_ = std::move(map);
  }
  node_->kind = Kind::map;
}

/// `holds_list`: the next step is an item of the list under the key.
void Descent::to_key(const Step& step, bool holds_list) {
  become_map(step.key, holds_list);
  // This list was a shorthand, and an earlier override has put other options beside it.
  if (holds_list && node_->has_shorthand && node_->map.front().second.kind == Kind::list &&
      node_->find(step.key) == nullptr) {
    node_->map.front().first = step.key;
    node_->has_shorthand = false;
  }
  auto entry = std::ranges::find(node_->map, step.key, &std::pair<std::string, ConfigNode>::first);
  if (entry == node_->map.end()) {
    entry = node_->map.insert(entry, {step.key, ConfigNode{.origin = origin_}});
    // If the item then has a key too many beside its name, that is a mistake of the override, not of the file.
    if (place_ == Place::item) node_->origin = origin_;
  }
  const bool is_name = place_ == Place::item && node_->map.size() == 1;
  go(entry->second, is_name ? Place::behind_name : Place::elsewhere, step);
}

void Descent::set(ConfigNode value) {
  if (place_ == Place::item) outer_->origin = origin_;
  if (place_ == Place::item && value.kind == Kind::null)
    outer_->list.erase(outer_->list.begin() + static_cast<std::ptrdiff_t>(index_));
  else
    *node_ = std::move(value);
}

}  // namespace

void override_config(ConfigNode& root, std::string_view assignment, const std::string& source) {
  const size_t equals = assignment.find('=');
  if (equals == std::string_view::npos)
    refuse(source, "expected KEY=VALUE", "'" + cut(std::string(assignment)) + "'",
           fmt::format("write for instance {} learning_rate=0.1", source));
  const std::string_view way = assignment.substr(0, equals);
  const std::vector<Step> steps = steps_of(way, source);
  const std::string where = fmt::format("{}: {}", source, way);
  ConfigNode value = parse_yaml_value(assignment.substr(equals + 1), source, where);

  Descent descent(root, where, source);
  for (size_t i = 0; i < steps.size(); ++i) {
    if (steps[i].key.empty())
      descent.to_item(steps[i]);
    else
      descent.to_key(steps[i], i + 1 < steps.size() && steps[i + 1].key.empty());
  }
  descent.set(std::move(value));
}

}  // namespace dptrain
