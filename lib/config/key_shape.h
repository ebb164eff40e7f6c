#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "config/config_node.h"
#include "config/config_reader.h"

namespace dptrain {

/// A value that was read, or that a missing key gets. monostate means no value.
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

/// The values that a key may have. Messages say what was expected from it, and the schema describes it.
struct KeyShape {
  KeyKind kind = KeyKind::text;
  bool required = false;
  ConfigValue otherwise = {};
  std::string help = {};
  IntegerRule integer = {};                  ///< for integer and integers
  NumberRule number = {};                    ///< for number and numbers
  std::vector<std::string> names = {};       ///< for one_of, named and named_list
  std::vector<std::string> names_help = {};  ///< for named and named_list
  std::vector<std::string> shorthands = {};  ///< for named_list, one per name
  std::string definition = {};               ///< for named_list
  std::string example = {};                  ///< for section, sections and named_list: a value that may be written
  std::vector<std::string> words = {};       ///< words that may be written instead of such a value: auto
};

/// The value as YAML on one line; "" for no value.
std::string yaml_value(const ConfigValue& value);

/// The value of a node under a rule; nothing if it has none.
std::optional<int64_t> integer_in(const ConfigNode& node, const IntegerRule& rule);
std::optional<double> number_in(const ConfigNode& node, const NumberRule& rule);
std::optional<bool> boolean_in(const ConfigNode& node);
std::optional<std::string> text_in(const ConfigNode& node);

/// A value that may be written, as YAML. It is near the written one if that only has a wrong form or is just out of
/// range. "" for mappings of which no example is known.
std::string example(const KeyShape& shape, const ConfigNode& node);

/// The allowed value nearest to `wish`, for a reader that goes on after a mistake.
int64_t allowed_integer(const IntegerRule& rule, int64_t wish);
double allowed_number(const NumberRule& rule, double wish);

/// What the shape allows, in words: "an integer from 1 to 64, or auto".
std::string expected_words(const KeyShape& shape);
/// At most 60 bytes of `text`, in whole characters, with "..." behind them if there were more.
std::string cut(std::string text);
/// What was written, in words: "'many'", "the text '10'", "a list [1, 2]", "nothing". Long values are cut.
std::string got_words(const ConfigNode& node);
/// Advice for a node that isn't what was expected: "did you mean 'ddp'?", "write for instance epochs: 10".
std::string advice(const KeyShape& shape, const ConfigNode& node, const ConfigOrigin& origin,
                   const std::string& dotted);
/// How a user would write the value: "epochs: 10", or "--set strategy.bucket_mb=25" in an override. An override is in
/// quotes if a shell needs them: "--set 'links={gbps: 10}'".
std::string assignment(const ConfigOrigin& origin, const std::string& dotted, std::string_view value);

}  // namespace dptrain
