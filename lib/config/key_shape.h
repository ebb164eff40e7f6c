#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "config/config_node.h"
#include "config/config_reader.h"

namespace dptrain {

/// A value that was read, or that stands for an absent key; monostate is none.
using ConfigValue = std::variant<std::monostate, bool, int64_t, double, std::string, std::vector<int64_t>,
                                 std::vector<double>, std::vector<std::string>>;

enum class KeyKind {
  integer,
  number,
  boolean,
  text,
  path,
  one_of,
  integers,
  numbers,
  texts,
  named,
  section,
  sections,
  named_list
};

/// What may be written under a key: what a message says was expected, and what the schema describes.
struct KeyShape {
  KeyKind kind = KeyKind::text;
  bool required = false;
  ConfigValue otherwise = {};
  std::string help = {};
  IntegerRule integer = {};                  ///< of integer and integers
  NumberRule number = {};                    ///< of number and numbers
  std::vector<std::string> names = {};       ///< of one_of, named and named_list
  std::vector<std::string> names_help = {};  ///< of named and named_list
  std::vector<std::string> shorthands = {};  ///< of named_list, one a name
  std::string definition = {};               ///< of named_list
  std::string example = "{key: value}";      ///< of section and named_list: one that may be written
  std::vector<std::string> words = {};       ///< what may stand instead of such a value: auto
};

/// The value as YAML on one line; "" for none.
std::string yaml_value(const ConfigValue& value);

/// What a node means under a shape, where it means anything.
std::optional<int64_t> integer_in(const ConfigNode& node, const IntegerRule& rule);
std::optional<double> number_in(const ConfigNode& node, const NumberRule& rule);
std::optional<bool> boolean_in(const ConfigNode& node);
std::optional<std::string> text_in(const ConfigNode& node);

/// A value that may stand there, as YAML: the written one where it is only in a wrong form or just outside the range.
std::string example(const KeyShape& shape, const ConfigNode& node);

/// A value that a rule allows, for a reader that goes on after a mistake: as near to `wish` as the rule lets it be.
int64_t allowed_integer(const IntegerRule& rule, int64_t wish);
double allowed_number(const NumberRule& rule, double wish);

/// "an integer from 1 to 64, or auto".
std::string expected_words(const KeyShape& shape);
/// At most 60 bytes of `text`, whole characters only, and "..." where there were more.
std::string cut(std::string text);
/// "'many'", "the text '10'", "a list [1, 2]", "nothing"; cut where it is long.
std::string got_words(const ConfigNode& node);
/// What to do about a node that is not what was expected: "did you mean 'ddp'?", "write for instance epochs: 10".
std::string advice(const KeyShape& shape, const ConfigNode& node, const ConfigOrigin& origin,
                   const std::string& dotted);
/// How a user would write the value: "epochs: 10", or "--set strategy.bucket_mb=25" in an override.
std::string assignment(const ConfigOrigin& origin, const std::string& dotted, std::string_view value);

}  // namespace dptrain
