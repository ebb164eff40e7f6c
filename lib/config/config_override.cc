#include <fmt/format.h>

#include <utility>
#include <vector>

#include "base/error.h"
#include "config/config_document.h"
#include "config/yaml_events.h"

namespace dptrain {
namespace {

using Kind = ConfigNode::Kind;

/// "a.b" -> {"a", "b"}; an empty part is a mistake.
std::vector<std::string> key_parts(std::string_view dotted, const std::string& source) {
  std::vector<std::string> parts;
  for (std::string_view rest = dotted;;) {
    const size_t dot = rest.find('.');
    parts.emplace_back(rest.substr(0, dot));
    if (parts.back().empty() || parts.size() > kConfigLimitDepth)
      throw Error(ExitCode::config, Mistake{source, "expected a key like strategy.bucket_mb before the '='",
                                            fmt::format("'{}'", dotted.substr(0, 60)),
                                            fmt::format("write for instance {} learning_rate=0.1", source)});
    if (dot == std::string_view::npos) return parts;
    rest.remove_prefix(dot + 1);
  }
}

/// The value under `key`, a null one where there was none.
ConfigNode& child(ConfigNode& map, const std::string& key, const ConfigOrigin& origin) {
  for (auto& [name, value] : map.map)
    if (name == key) return value;
  return map.map.emplace_back(key, ConfigNode{.origin = origin}).second;
}

/// Makes a mapping of what stands on the way to a key: of nothing an empty one, of `ddp` {name: ddp}.
void become_map(ConfigNode& node, const std::string& where) {
  if (node.kind == Kind::list)
    throw Error(ExitCode::config, Mistake{where, "expected a mapping or a name on the way to this key",
                                          "the list " + node.text().substr(0, 60), "replace the list as a whole"});
  if (node.kind == Kind::scalar) {
    ConfigNode map{.kind = Kind::map, .origin = node.origin};
    map.map.emplace_back("name", std::move(node));
    node = std::move(map);
  }
  node.kind = Kind::map;
}

}  // namespace

void override_config(ConfigNode& root, std::string_view assignment, const std::string& source) {
  const size_t equals = assignment.find('=');
  if (equals == std::string_view::npos)
    throw Error(ExitCode::config, Mistake{source, "expected KEY=VALUE", fmt::format("'{}'", assignment.substr(0, 60)),
                                          fmt::format("write for instance {} learning_rate=0.1", source)});
  const std::string_view key = assignment.substr(0, equals);
  const std::vector<std::string> parts = key_parts(key, source);
  const std::string where = fmt::format("{}: {}", source, key);
  ConfigNode value = parse_yaml_value(assignment.substr(equals + 1), source, where);

  const ConfigOrigin origin{.source = source};
  ConfigNode* node = &root;
  for (const auto& part : parts) {
    become_map(*node, where);
    node = &child(*node, part, origin);
  }
  *node = std::move(value);
}

}  // namespace dptrain
