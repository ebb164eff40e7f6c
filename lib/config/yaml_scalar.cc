#include "config/yaml_scalar.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "base/check.h"
#include "base/lower_case.h"

namespace dptrain {
namespace {

constexpr std::string_view kDigits = "0123456789";

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_control(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }

/// Removes the digits at the beginning of `text` and returns how many there were.
size_t take_digits(std::string_view& text) {
  const size_t count = std::min(text.find_first_not_of(kDigits), text.size());
  text.remove_prefix(count);
  return count;
}

/// Removes -?(0|[1-9][0-9]*)? from the beginning of `text`. Returns false for a leading zero.
bool take_whole_part(std::string_view& text, bool& has_digits) {
  if (text.starts_with('-')) text.remove_prefix(1);
  const bool leading_zero = text.size() > 1 && text[0] == '0' && is_digit(text[1]);
  has_digits = take_digits(text) > 0;
  return !leading_zero;
}

bool is_decimal(std::string_view text) {
  bool has_digits = false;
  if (!take_whole_part(text, has_digits)) return false;
  if (text.starts_with('.')) {
    text.remove_prefix(1);
    has_digits = take_digits(text) > 0 || has_digits;
  }
  if (!has_digits) return false;
  if (text.starts_with('e') || text.starts_with('E')) {
    text.remove_prefix(1);
    if (text.starts_with('+') || text.starts_with('-')) text.remove_prefix(1);
    if (take_digits(text) == 0) return false;
  }
  return text.empty();
}

/// Whether some reader of YAML (1.1 or 1.2) takes the unquoted scalar for something other than text.
bool means_something_else(std::string_view text) {
  constexpr std::array<std::string_view, 14> kWords = {"~",   "null", "true",  "false", "yes",  "no", "on",
                                                       "off", ".inf", "-.inf", "+.inf", ".nan", "=",  "<<"};
  const std::string lower = lower_case(text);
  if (std::ranges::find(kWords, lower) != kWords.end()) return true;
  if (lower.starts_with("0x") || lower.starts_with("0o") || lower.starts_with("0b")) return true;
  // Decimal, octal and sexagesimal numbers, and dates, consist of these characters and have a digit.
  return lower.find_first_not_of("0123456789+-._:etz") == std::string::npos &&
         lower.find_first_of(kDigits) != std::string::npos;
}

/// Whether `text` can be written without quotes, even between the brackets of a flow list.
bool stands_unquoted(std::string_view text) {
  if (text.empty() || text.starts_with(' ') || text.ends_with(' ') || text.ends_with(':')) return false;
  if (text.find_first_of(",[]{}?") != std::string_view::npos || std::ranges::any_of(text, is_control)) return false;
  if (std::string_view(":#&*!|>'\"%@`").find(text.front()) != std::string_view::npos) return false;
  if (text.front() == '-' && (text.size() == 1 || text[1] == ' ' || text[1] == '-')) return false;
  return text.find(": ") == std::string_view::npos && text.find(" #") == std::string_view::npos;
}

std::string quoted(std::string_view text) {
  std::string out;
  if (std::ranges::none_of(text, is_control)) {
    for (const char c : text) out += c == '\'' ? std::string("''") : std::string(1, c);
    return "'" + out + "'";
  }
  for (const char c : text) {
    if (c == '\n')
      out += "\\n";
    else if (c == '\t')
      out += "\\t";
    else if (is_control(c))
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    else if (c == '"' || c == '\\')
      out += std::string{'\\', c};
    else
      out += c;
  }
  return "\"" + out + "\"";
}

}  // namespace

std::optional<int64_t> plain_integer(std::string_view text) {
  std::string_view rest = text;
  bool has_digits = false;
  if (!take_whole_part(rest, has_digits) || !has_digits || !rest.empty()) return std::nullopt;
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return std::nullopt;
  return value;
}

std::optional<double> plain_number(std::string_view text) {
  if (!is_decimal(text)) return std::nullopt;
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return std::nullopt;
  return value;
}

std::optional<bool> plain_boolean(std::string_view text) {
  if (text == "true") return true;
  if (text == "false") return false;
  return std::nullopt;
}

std::optional<std::vector<std::string>> texts_between_commas(std::string_view text) {
  std::vector<std::string> texts;
  for (;;) {
    const size_t comma = std::min(text.find(','), text.size());
    const size_t begin = std::min(text.find_first_not_of(' '), comma);
    const std::string_view part = text.substr(begin, comma - begin);
    texts.emplace_back(part.substr(0, part.find_last_not_of(' ') + 1));
    if (texts.back().empty()) return std::nullopt;
    if (comma == text.size()) return texts;
    text.remove_prefix(comma + 1);
  }
}

std::string yaml_text(std::string_view text) {
  return stands_unquoted(text) && !means_something_else(text) ? std::string(text) : quoted(text);
}

std::string yaml_plain(std::string_view text) { return stands_unquoted(text) ? std::string(text) : quoted(text); }

std::string yaml_number(double value) {
  DPTRAIN_CHECK(std::isfinite(value), "a configuration holds finite numbers only, got {}", value);
  std::array<char, 32> digits{};
  const auto [end, error] = std::to_chars(digits.data(), digits.data() + digits.size(), value);
  std::string text(digits.data(), end);
  // YAML 1.1, as Python reads it, takes 1e-05 for a text.
  if (const size_t exponent = text.find('e'); exponent != std::string::npos && text.find('.') == std::string::npos)
    text.insert(exponent, ".0");
  return text;
}

}  // namespace dptrain
