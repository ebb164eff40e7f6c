#include "config/yaml_bytes.h"

#include <fmt/format.h>

#include "base/utf8.h"

namespace dptrain {
std::optional<BadByte> first_bad_byte(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const char c = text[i];
    const auto value = static_cast<unsigned char>(c);
    if (c == '\0') return BadByte{i, "a NUL byte"};
    if ((value < 0x20 && c != '\t' && c != '\n' && c != '\r') || value == 0x7f)
      return BadByte{i, fmt::format("the control character 0x{:02x}", value)};
    if (!next_code_point(text, i)) return BadByte{i, fmt::format("the byte 0x{:02x}, which is not UTF-8", value)};
  }
  return std::nullopt;
}

}  // namespace dptrain
