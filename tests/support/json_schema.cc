#include "support/json_schema.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <regex>
#include <utility>

#include "support/process.h"
#include "support/source_tree.h"

namespace dptrain::testing {
namespace {

using nlohmann::json;

bool is_of(const json& value, const std::string& type) {
  if (type == "null") return value.is_null();
  if (type == "boolean") return value.is_boolean();
  if (type == "integer") return value.is_number_integer();
  if (type == "number") return value.is_number();
  if (type == "string") return value.is_string();
  if (type == "array") return value.is_array();
  return type == "object" && value.is_object();
}

bool is_of_type(const json& value, const json& types) {
  if (types.is_string()) return is_of(value, types);
  return std::ranges::any_of(types, [&](const json& type) { return is_of(value, type); });
}

class JsonSchema {
 public:
  explicit JsonSchema(json schema) : root_(std::move(schema)) {}

  std::vector<std::string> violations(const json& value) const {
    std::vector<std::string> found;
    check(root_, value, "", found);
    return found;
  }

 private:
  using Lines = std::vector<std::string>;

  void check(const json& schema, const json& value, const std::string& at, Lines& found) const {
    for (const auto& [keyword, rule] : schema.items()) check_keyword(keyword, rule, value, at, found);
    if (value.is_object() && schema.contains("properties"))
      for (const auto& [key, inner] : value.items())
        if (!schema["properties"].contains(key)) found.push_back(at + "/" + key + ": not described");
  }

  void check_keyword(const std::string& keyword, const json& rule, const json& value, const std::string& at,
                     Lines& found) const {
    const auto refuse = [&] { found.push_back(at + ": " + keyword + " " + rule.dump() + ", got " + value.dump()); };
    if (keyword == "type") {
      if (!is_of_type(value, rule)) refuse();
    } else if (keyword == "required") {
      for (const json& key : rule)
        if (value.is_object() && !value.contains(key.get<std::string>())) found.push_back(at + ": no " + key.dump());
    } else if (keyword == "properties") {
      for (const auto& [key, inner] : rule.items())
        if (value.is_object() && value.contains(key)) check(inner, value[key], at + "/" + key, found);
    } else if (keyword == "items") {
      for (size_t i = 0; value.is_array() && i < value.size(); ++i)
        check(rule, value[i], at + "/" + std::to_string(i), found);
    } else if (keyword == "minimum") {
      if (value.is_number() && value.get<double>() < rule.get<double>()) refuse();
    } else if (keyword == "enum") {
      if (std::ranges::find(rule, value) == rule.end()) refuse();
    } else if (keyword == "const") {
      if (value != rule) refuse();
    } else if (keyword == "pattern") {
      if (value.is_string() && !std::regex_search(value.get<std::string>(), std::regex(rule.get<std::string>())))
        refuse();
    } else if (keyword == "anyOf") {
      const auto fits = [&](const json& one) {
        Lines lines;
        check(one, value, at, lines);
        return lines.empty();
      };
      if (std::ranges::none_of(rule, fits)) refuse();
    } else if (keyword == "$ref") {
      check(root_.at(json::json_pointer(rule.get<std::string>().substr(1))), value, at, found);
    } else if (keyword != "description" && keyword != "title" && keyword[0] != '$') {
      found.push_back(at + ": this checker doesn't know the keyword " + keyword);
    }
  }

  json root_;
};

}  // namespace

std::vector<std::string> schema_violations(const std::string& schema, const json& value) {
  return JsonSchema(json::parse(text_of(source_file("docs/" + schema)))).violations(value);
}

}  // namespace dptrain::testing
