#include "base/html_text.h"

#include <cstddef>
#include <cstdint>

namespace dptrain {
namespace {

constexpr std::string_view kReplacement = "\xef\xbf\xbd";  // U+FFFD

/// Bytes of the character that `text` begins with, by its first byte; 0 where none begins so.
size_t bytes_of_character(unsigned char first) {
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first < 0xE0) return 2;
  if (first >= 0xE0 && first < 0xF0) return 3;
  return first >= 0xF0 && first < 0xF5 ? 4 : 0;
}

/// The first character of `text`, which isn't empty; nothing where it begins with none of UTF-8.
std::string_view first_character(std::string_view text) {
  const auto byte = [&](size_t at) { return static_cast<unsigned char>(text[at]); };
  const size_t bytes = bytes_of_character(byte(0));
  if (bytes == 0 || bytes > text.size()) return {};
  for (size_t at = 1; at < bytes; ++at)
    if ((byte(at) & 0xC0) != 0x80) return {};
  if (bytes >= 3) {
    // Longer than they need be, halves of UTF-16's pairs, and beyond the last character.
    const unsigned first_two = byte(0) << 8U | byte(1);
    if ((first_two & 0xFFE0U) == 0xE080U || (first_two & 0xFFE0U) == 0xEDA0U || (first_two & 0xFFF0U) == 0xF080U ||
        first_two >= 0xF490U)
      return {};
  }
  return text.substr(0, bytes);
}

bool is_control(std::string_view character) {
  const auto first = static_cast<unsigned char>(character[0]);
  if (character.size() == 2) return first == 0xC2 && static_cast<unsigned char>(character[1]) < 0xA0;
  return first == 0x7F || (first < 0x20 && first != '\t' && first != '\n');
}

std::string_view escape_of(char c) {
  switch (c) {
    case '&': return "&amp;";
    case '<': return "&lt;";
    case '>': return "&gt;";
    case '"': return "&quot;";
    case '\'': return "&#39;";
    default: return {};
  }
}

}  // namespace

std::string html_text(std::string_view text) {
  std::string escaped;
  while (!text.empty()) {
    const std::string_view character = first_character(text);
    if (character.empty() || is_control(character))
      escaped += kReplacement;
    else if (const std::string_view escape = escape_of(character[0]); !escape.empty())
      escaped += escape;
    else
      escaped += character;
    text.remove_prefix(character.empty() ? 1 : character.size());
  }
  return escaped;
}

}  // namespace dptrain
