#include "config/key_shape.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/lower_case.h"
#include "base/nearest_name.h"
#include "config/yaml_scalar.h"

namespace dptrain {
namespace {

using Kind = ConfigNode::Kind;

constexpr IntegerRule kAnyInteger{};

bool is_plain(const ConfigNode& node) { return node.kind == Kind::scalar && !node.quoted; }

std::string integer_words(const IntegerRule& rule) {
  const bool has_min = rule.min != kAnyInteger.min, has_max = rule.max != kAnyInteger.max;
  if (has_min && has_max) return fmt::format("an integer from {} to {}", rule.min, rule.max);
  if (has_min) return fmt::format("an integer of at least {}", rule.min);
  if (has_max) return fmt::format("an integer of at most {}", rule.max);
  return "an integer";
}

std::string number_words(const NumberRule& rule) {
  const bool has_min = std::isfinite(rule.min), has_max = std::isfinite(rule.max);
  if (has_min && has_max && !rule.exclusive_min && !rule.exclusive_max)
    return fmt::format("a number from {} to {}", yaml_number(rule.min), yaml_number(rule.max));
  std::string words = "a number";
  if (has_min) words += fmt::format(" {} {}", rule.exclusive_min ? "over" : "of at least", yaml_number(rule.min));
  if (has_max)
    words += fmt::format("{} {} {}", has_min ? " and" : "", rule.exclusive_max ? "below" : "of at most",
                         yaml_number(rule.max));
  return words;
}

/// An argument of a command, in quotes if a shell would change it.
std::string shell_word(const std::string& text) {
  if (text.find_first_of(" []{}()<>*?$&|;#~\"'`\\!") == std::string::npos) return text;
  if (text.find('\'') == std::string::npos) return "'" + text + "'";
  if (text.find_first_of("\"$`\\!") == std::string::npos) return '"' + text + '"';
  std::string quoted;
  for (const char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return "'" + quoted + "'";
}

std::string yaml_item(int64_t value) { return fmt::format("{}", value); }
std::string yaml_item(double value) { return yaml_number(value); }
std::string yaml_item(bool value) { return value ? "true" : "false"; }
std::string yaml_item(const std::string& value) { return yaml_text(value); }
std::string yaml_item(std::monostate) { return {}; }
template <typename T>
std::string yaml_item(const std::vector<T>& values) {
  std::string items;
  for (const auto& value : values) items += (items.empty() ? "" : ", ") + yaml_item(value);
  return "[" + items + "]";
}

/// Whether the text has the form of an integer but too many digits.
bool is_integer_beyond(const std::string& text) {
  return plain_number(text) && !plain_integer(text) && text.find_first_not_of("+-0123456789") == std::string::npos;
}

/// The integer nearest to a number: a million for 1e6, two for 1.5. Nothing if the text isn't a number, or is too
/// large.
std::optional<int64_t> nearest_integer(const std::string& text) {
  constexpr double kMost = 1e15;
  if (const auto integer = plain_integer(text)) return integer;
  const auto number = plain_number(text);
  return number && std::abs(*number) <= kMost ? std::optional(std::llround(*number)) : std::nullopt;
}

/// The boolean that other languages, or YAML 1.1, mean by a word. Any word that isn't a no counts as true.
bool meant_boolean(const std::string& word) {
  constexpr std::array<std::string_view, 6> kNo = {"false", "no", "off", "n", "f", "0"};
  return std::ranges::find(kNo, lower_case(word)) == kNo.end();
}

}  // namespace

std::string example(const KeyShape& shape, const ConfigNode& node) {
  const bool has_default = shape.otherwise.index() > 0;
  switch (shape.kind) {
    case KeyKind::integer:
    case KeyKind::integers:
      if (const auto value = nearest_integer(node.scalar)) return yaml_item(allowed_integer(shape.integer, *value));
      return has_default ? yaml_value(shape.otherwise)
                         : yaml_item(allowed_integer(shape.integer, shape.integer.example));
    case KeyKind::number:
    case KeyKind::numbers: {
      const auto value = plain_number(node.scalar);
      if (value && number_in(ConfigNode{.kind = Kind::scalar, .scalar = node.scalar}, shape.number)) return node.scalar;
      return has_default ? yaml_value(shape.otherwise)
                         : yaml_number(allowed_number(shape.number, shape.number.example));
    }
    case KeyKind::boolean: return meant_boolean(node.scalar) ? "true" : "false";
    case KeyKind::one_of:
    case KeyKind::named: return has_default ? yaml_value(shape.otherwise) : yaml_text(shape.names.front());
    case KeyKind::texts:
      return has_default && yaml_value(shape.otherwise) != "[]" ? yaml_value(shape.otherwise) : "[a, b]";
    case KeyKind::section:
    case KeyKind::sections:
    case KeyKind::named_list: return shape.example;
    case KeyKind::text:
    case KeyKind::path: break;
  }
  return "'...'";
}

std::string yaml_value(const ConfigValue& value) {
  return std::visit([](const auto& held) { return yaml_item(held); }, value);
}

std::optional<int64_t> integer_in(const ConfigNode& node, const IntegerRule& rule) {
  const auto value = is_plain(node) ? plain_integer(node.scalar) : std::nullopt;
  return value && *value >= rule.min && *value <= rule.max ? value : std::nullopt;
}

std::optional<double> number_in(const ConfigNode& node, const NumberRule& rule) {
  const auto value = is_plain(node) ? plain_number(node.scalar) : std::nullopt;
  if (!value || *value < rule.min || *value > rule.max) return std::nullopt;
  if ((rule.exclusive_min && *value == rule.min) || (rule.exclusive_max && *value == rule.max)) return std::nullopt;
  return value;
}

std::optional<bool> boolean_in(const ConfigNode& node) {
  return is_plain(node) ? plain_boolean(node.scalar) : std::nullopt;
}

std::optional<std::string> text_in(const ConfigNode& node) {
  return node.kind == Kind::scalar ? std::optional(node.scalar) : std::nullopt;
}

int64_t allowed_integer(const IntegerRule& rule, int64_t wish) { return std::max(rule.min, std::min(wish, rule.max)); }

double allowed_number(const NumberRule& rule, double wish) {
  const bool over_min = rule.exclusive_min ? wish > rule.min : wish >= rule.min;
  const bool under_max = rule.exclusive_max ? wish < rule.max : wish <= rule.max;
  if (over_min && under_max) return wish;
  if (std::isfinite(rule.min) && std::isfinite(rule.max)) return rule.min + (rule.max - rule.min) / 2;
  return over_min ? rule.max - rule.exclusive_max : rule.min + rule.exclusive_min;
}

std::string expected_words(const KeyShape& shape) {
  const auto base = [&]() -> std::string {
    switch (shape.kind) {
      case KeyKind::integer: return integer_words(shape.integer);
      case KeyKind::number: return number_words(shape.number);
      case KeyKind::boolean: return "true or false";
      case KeyKind::text: return "a text";
      case KeyKind::path: return "a path";
      case KeyKind::one_of: return fmt::format("one of {}", fmt::join(shape.names, ", "));
      case KeyKind::integers: return integer_words(shape.integer) + ", or a list of them";
      case KeyKind::numbers: return number_words(shape.number) + ", or a list of them";
      case KeyKind::texts: return "a list of texts, or one text with commas";
      case KeyKind::named: return fmt::format("one of {}, or a mapping with such a name", fmt::join(shape.names, ", "));
      case KeyKind::section: return "a mapping";
      case KeyKind::sections: return "a list of mappings";
      case KeyKind::named_list:
        return fmt::format("a list of {}{}", shape.otherwise.index() > 0 ? "" : "one or more ", shape.definition);
    }
    return {};
  };
  return shape.words.empty() ? base() : fmt::format("{}, or {}", base(), fmt::join(shape.words, " or "));
}

std::string cut(std::string text) {
  constexpr size_t kLongest = 60;
  if (text.size() <= kLongest) return text;
  size_t end = kLongest;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  return text.substr(0, end) + "...";
}

std::string got_words(const ConfigNode& node) {
  switch (node.kind) {
    case Kind::null: return "nothing";
    case Kind::list: return "the list " + cut(node.text());
    case Kind::map: return "the mapping " + cut(node.text());
    case Kind::scalar: break;
  }
  const bool looks_typed = plain_number(node.scalar) || plain_boolean(node.scalar);
  if (is_plain(node) && is_integer_beyond(node.scalar))
    return fmt::format("{}, {}", cut(node.scalar),
                       node.scalar.starts_with('-') ? fmt::format("less than {}", kAnyInteger.min)
                                                    : fmt::format("more than {}", kAnyInteger.max));
  if (looks_typed) return (node.quoted ? "the text '" : "") + cut(node.scalar) + (node.quoted ? "'" : "");
  const std::string text = cut(yaml_text(node.scalar));
  return text == node.scalar ? "'" + text + "'" : text;
}

std::string advice(const KeyShape& shape, const ConfigNode& node, const ConfigOrigin& origin,
                   const std::string& dotted) {
  if (node.kind == Kind::scalar) {
    // The names of a named list are its items, not a value in place of the list.
    std::vector<std::string> names = shape.kind == KeyKind::named_list ? std::vector<std::string>() : shape.names;
    // Words that replace a whole list are not allowed as items.
    if (!dotted.ends_with(']')) names.insert(names.end(), shape.words.begin(), shape.words.end());
    if (const auto near = nearest_name(node.scalar, names); !near.empty())
      return fmt::format("did you mean '{}'?", near);
  }
  const std::string shown = example(shape, node);
  const std::string value = shown.empty() ? fmt::format("<{}>", expected_words(shape)) : shown;
  const bool only_quoted = node.quoted && value == node.scalar;
  // A number out of range is replaced by another number in its place. For any other item the whole list is shown.
  const bool is_number = (shape.kind == KeyKind::integers || shape.kind == KeyKind::numbers) && !value.starts_with('[');
  const std::string named = dotted.ends_with(']') && !is_number ? dotted.substr(0, dotted.rfind('[')) : dotted;
  const char* const lead = only_quoted     ? "leave out the quotes: write "
                           : shown.empty() ? "write "
                                           : "write for instance ";
  return lead + assignment(origin, named, value);
}

std::string assignment(const ConfigOrigin& origin, const std::string& dotted, std::string_view value) {
  if (dotted.ends_with(']')) return fmt::format("{} in its place", value);
  // An element of a list may have been set together with the list, and must then be corrected there.
  const bool is_in_element = dotted.find('[') != std::string::npos;
  if (origin.line == 0 && origin.source.starts_with("--set") && !is_in_element)
    return fmt::format("{} {}", origin.source, shell_word(fmt::format("{}={}", dotted, value)));
  return fmt::format("{}: {}", dotted.substr(dotted.rfind('.') + 1), value);
}

}  // namespace dptrain
