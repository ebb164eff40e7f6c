#include "config/config_json.h"

#include <nlohmann/json.hpp>

#include "config/config_document.h"
#include "config/yaml_scalar.h"

namespace dptrain {
namespace {

using Json = nlohmann::ordered_json;
using Kind = ConfigNode::Kind;

Json json_of(const ConfigNode& node) {
  Json json;
  switch (node.kind) {
    case Kind::null: break;
    case Kind::scalar:
      if (node.quoted) return node.scalar;
      if (const auto integer = plain_integer(node.scalar)) return *integer;
      if (const auto number = plain_number(node.scalar)) return *number;
      if (const auto boolean = plain_boolean(node.scalar)) return *boolean;
      return node.scalar;
    case Kind::list:
      json = Json::array();
      for (const ConfigNode& item : node.list) json.push_back(json_of(item));
      break;
    case Kind::map:
      json = Json::object();
      for (const auto& [key, value] : node.map) json[key] = json_of(value);
      break;
  }
  return json;
}

}  // namespace

std::string config_json(std::string_view yaml) { return json_of(parse_config(yaml, "the configuration")).dump(2); }

}  // namespace dptrain
