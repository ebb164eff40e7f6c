#include "config/yaml_bytes.h"

#include <fmt/format.h>

namespace dptrain {
namespace {

/// Bytes of the UTF-8 character that `text` begins with; 0 where it isn't one (overlong, surrogate, over U+10FFFF, cut
/// off).
size_t utf8_length(std::string_view text) {
  const auto byte = [&](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  const auto follows = [&](size_t i) { return (byte(i) & 0xc0) == 0x80; };
  const unsigned lead = byte(0);
  if (lead < 0x80) return 1;
  if (lead >= 0xc2 && lead <= 0xdf) return follows(1) ? 2 : 0;
  if (lead >= 0xe0 && lead <= 0xef) {
    const bool overlong = lead == 0xe0 && byte(1) < 0xa0;
    const bool surrogate = lead == 0xed && byte(1) > 0x9f;
    return follows(1) && follows(2) && !overlong && !surrogate ? 3 : 0;
  }
  if (lead >= 0xf0 && lead <= 0xf4) {
    const bool overlong = lead == 0xf0 && byte(1) < 0x90;
    const bool too_large = lead == 0xf4 && byte(1) > 0x8f;
    return follows(1) && follows(2) && follows(3) && !overlong && !too_large ? 4 : 0;
  }
  return 0;
}

}  // namespace

std::optional<BadByte> first_bad_byte(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const char c = text[i];
    const auto value = static_cast<unsigned char>(c);
    if (c == '\0') return BadByte{i, "a NUL byte"};
    if ((value < 0x20 && c != '\t' && c != '\n' && c != '\r') || value == 0x7f)
      return BadByte{i, fmt::format("the control character 0x{:02x}", value)};
    const size_t length = utf8_length(text.substr(i));
    if (length == 0) return BadByte{i, fmt::format("the byte 0x{:02x}, which is not UTF-8", value)};
    i += length;
  }
  return std::nullopt;
}

}  // namespace dptrain
