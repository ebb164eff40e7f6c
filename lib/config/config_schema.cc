#include "config/config_schema.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

namespace dptrain {
namespace {

using Json = nlohmann::ordered_json;

Json mapping_schema(const ReadMapping& mapping);
Json key_schema(const ReadKey& record);

Json json_value(const ConfigValue& value) {
  return std::visit(
      [](const auto& held) -> Json {
        if constexpr (std::is_same_v<std::decay_t<decltype(held)>, std::monostate>)
          return nullptr;
        else
          return held;
      },
      value);
}

Json integer_schema(const IntegerRule& rule) {
  constexpr IntegerRule kAny{};
  Json schema = {{"type", "integer"}};
  if (rule.min != kAny.min) schema["minimum"] = rule.min;
  if (rule.max != kAny.max) schema["maximum"] = rule.max;
  return schema;
}

Json number_schema(const NumberRule& rule) {
  Json schema = {{"type", "number"}};
  if (std::isfinite(rule.min)) schema[rule.exclusive_min ? "exclusiveMinimum" : "minimum"] = rule.min;
  if (std::isfinite(rule.max)) schema[rule.exclusive_max ? "exclusiveMaximum" : "maximum"] = rule.max;
  return schema;
}

/// A text may be written without quotes, so to an editor it may look like a number or a boolean.
Json text_schema() { return {{"type", {"string", "number", "boolean"}}}; }

Json one_or_list(const Json& item) { return {{"anyOf", {item, {{"type", "array"}, {"items", item}}}}}; }

bool needs_a_key(const ReadMapping& mapping);

bool is_required(const ReadKey& record) {
  if (record.shape.kind == KeyKind::section && record.default_word.empty() && !record.inner.empty())
    return needs_a_key(*record.inner.front());
  return record.shape.required;
}

bool needs_a_key(const ReadMapping& mapping) { return std::ranges::any_of(mapping.keys, is_required); }

/// A name alone, if all its options have defaults, or a mapping for each name with its options.
Json named_schema(const ReadKey& record) {
  Json names = Json::array(), names_help = Json::array(), mappings = Json::array();
  for (size_t i = 0; i < record.inner.size(); ++i) {
    const ReadMapping& options = *record.inner[i];
    const std::string& name = record.shape.names[i];
    Json mapping = {{"description", record.shape.names_help[i]}};
    mapping.update(mapping_schema(options));
    mapping["properties"]["name"] = {{"const", name}};
    // {normal: 0.01} is short for {name: normal, normal: 0.01}.
    if (mapping["properties"].contains(name)) mapping["required"] = {name};
    mappings.push_back(std::move(mapping));
    const auto is_needed = [](const ReadKey& key) { return key.key != "name" && is_required(key); };
    if (std::ranges::any_of(options.keys, is_needed)) continue;
    names.push_back(name);
    names_help.push_back(record.shape.names_help[i]);
  }
  Json alternatives = Json::array();
  if (!names.empty()) alternatives.push_back({{"enum", names}, {"enumDescriptions", names_help}});
  for (auto& mapping : mappings) alternatives.push_back(std::move(mapping));
  return {{"anyOf", std::move(alternatives)}};
}

/// The values behind a name of a list: its options, or the value of its shorthand option.
Json options_schema(const ReadMapping& options, const std::string& shorthand) {
  Json schema = mapping_schema(options);
  const auto is_other = [&](const ReadKey& key) { return key.key != shorthand && is_required(key); };
  const auto value = std::ranges::find(options.keys, shorthand, &ReadKey::key);
  if (value == options.keys.end() || std::ranges::any_of(options.keys, is_other)) return schema;
  return {{"anyOf", {std::move(schema), key_schema(*value)}}};
}

/// A list of names, each alone if all its options have defaults, or in front of its options.
Json named_list_schema(const ReadKey& record) {
  Json names = Json::array(), names_help = Json::array(), mappings = Json::array();
  for (size_t i = 0; i < record.inner.size(); ++i) {
    const ReadMapping& options = *record.inner[i];
    const std::string& name = record.shape.names[i];
    mappings.push_back({{"description", record.shape.names_help[i]},
                        {"type", "object"},
                        {"properties", {{name, options_schema(options, record.shape.shorthands[i])}}},
                        {"required", {name}},
                        {"additionalProperties", false}});
    if (needs_a_key(options)) continue;
    names.push_back(name);
    names_help.push_back(record.shape.names_help[i]);
  }
  Json alternatives = Json::array();
  if (!names.empty()) alternatives.push_back({{"enum", names}, {"enumDescriptions", names_help}});
  for (auto& mapping : mappings) alternatives.push_back(std::move(mapping));
  const int min_items = record.shape.otherwise.index() > 0 ? 0 : 1;
  return {{"type", "array"}, {"minItems", min_items}, {"items", {{"anyOf", std::move(alternatives)}}}};
}

/// The named lists in a mapping, by their definitions.
void collect_definitions(const ReadMapping& mapping, Json& definitions) {
  for (const auto& record : mapping.keys) {
    if (record.shape.kind == KeyKind::named_list && !record.inner.empty())
      definitions[record.shape.definition] = named_list_schema(record);
    for (const auto& inner : record.inner) collect_definitions(*inner, definitions);
  }
}

Json value_schema(const ReadKey& record) {
  const KeyShape& shape = record.shape;
  switch (shape.kind) {
    case KeyKind::integer: return integer_schema(shape.integer);
    case KeyKind::number: return number_schema(shape.number);
    case KeyKind::boolean: return {{"type", "boolean"}};
    case KeyKind::text: return text_schema();
    case KeyKind::path: return {{"type", "string"}};
    case KeyKind::one_of: return {{"enum", shape.names}};
    case KeyKind::integers: return one_or_list(integer_schema(shape.integer));
    case KeyKind::numbers: return one_or_list(number_schema(shape.number));
    case KeyKind::texts: return one_or_list(text_schema());
    case KeyKind::named: return named_schema(record);
    case KeyKind::section: return mapping_schema(*record.inner.front());
    case KeyKind::sections: return {{"type", "array"}, {"items", mapping_schema(*record.inner.front())}};
    case KeyKind::named_list: return {{"$ref", "#/$defs/" + shape.definition}};
  }
  return {};
}

Json key_schema(const ReadKey& record) {
  Json schema = Json::object();
  if (!record.shape.help.empty()) schema["description"] = record.shape.help;
  if (record.shape.words.empty())
    schema.update(value_schema(record));
  else
    schema["anyOf"] = Json::array({Json{{"enum", record.shape.words}}, value_schema(record)});
  if (record.shape.otherwise.index() > 0) schema["default"] = json_value(record.shape.otherwise);
  return schema;
}

Json mapping_schema(const ReadMapping& mapping) {
  Json properties = Json::object(), required = Json::array(), other_keys = false;
  for (const auto& record : mapping.keys) {
    if (mapping.free_keys && record.key == "*") {
      other_keys = key_schema(record);
      continue;
    }
    properties[record.key] = key_schema(record);
    if (is_required(record)) required.push_back(record.key);
  }
  Json schema = {{"type", "object"}, {"properties", std::move(properties)}};
  if (!required.empty()) schema["required"] = std::move(required);
  schema["additionalProperties"] = std::move(other_keys);
  return schema;
}

}  // namespace

std::string config_schema(std::string_view title, const ReadMapping& root) {
  Json schema = {{"$schema", "https://json-schema.org/draft/2020-12/schema"}, {"title", title}};
  schema.update(mapping_schema(root));
  Json definitions = Json::object();
  collect_definitions(root, definitions);
  if (!definitions.empty()) schema["$defs"] = std::move(definitions);
  return schema.dump(2) + "\n";
}

}  // namespace dptrain
