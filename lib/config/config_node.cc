#include "config/config_node.h"

#include <fmt/format.h>

#include <algorithm>

#include "config/yaml_scalar.h"

namespace dptrain {

std::string ConfigOrigin::text() const { return line > 0 ? fmt::format("{}:{}:{}", source, line, column) : source; }

const ConfigNode* ConfigNode::find(const std::string& key) const {
  const auto entry = std::ranges::find(map, key, &std::pair<std::string, ConfigNode>::first);
  return entry == map.end() ? nullptr : &entry->second;
}

std::string ConfigNode::text() const {
  std::string text;
  switch (kind) {
    case Kind::null: return "null";
    case Kind::scalar: return quoted ? yaml_text(scalar) : yaml_plain(scalar);
    case Kind::list:
      for (const auto& item : list) text += (text.empty() ? "" : ", ") + item.text();
      return "[" + text + "]";
    case Kind::map:
      for (const auto& [key, value] : map)
        text += fmt::format("{}{}: {}", text.empty() ? "" : ", ", yaml_text(key), value.text());
      return "{" + text + "}";
  }
  return text;
}

}  // namespace dptrain
