#include "base/utf8.h"

#include <array>

namespace dptrain {

std::optional<uint32_t> next_code_point(std::string_view text, size_t& at) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t lead = byte(at);
  if (lead < 0x80) return byte(at++);
  const size_t bytes = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  // 0x80 to 0xc1 never begin a character: they continue one, or would encode an ASCII one in two bytes.
  if (lead < 0xc2 || lead > 0xf4 || text.size() - at < bytes) return std::nullopt;
  uint32_t code = lead & (0x7fu >> bytes);
  for (size_t i = at + 1; i < at + bytes; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return std::nullopt;
    code = code << 6 | (byte(i) & 0x3f);
  }
  constexpr std::array<uint32_t, 5> kLeast = {0, 0, 0x80, 0x800, 0x10000};
  if (code < kLeast[bytes] || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff)) return std::nullopt;
  at += bytes;
  return code;
}

}  // namespace dptrain
