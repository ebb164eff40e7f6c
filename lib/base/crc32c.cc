#include "base/crc32c.h"

#include <array>

namespace dptrain {
namespace {

/// The change of the register for each byte that leaves it.
constexpr std::array<uint32_t, 256> crc_table() {
  constexpr uint32_t kPolynomial = 0x82f63b78;  // with its bits reversed, as the register shifts to the right
  std::array<uint32_t, 256> table{};
  for (uint32_t byte = 0; byte < table.size(); ++byte) {
    uint32_t value = byte;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1) != 0 ? kPolynomial : 0);
    table[byte] = value;
  }
  return table;
}

}  // namespace

uint32_t crc32c(std::string_view bytes) {
  static constexpr std::array<uint32_t, 256> kTable = crc_table();
  uint32_t crc = 0xffffffff;
  for (const char c : bytes) crc = kTable[(crc ^ static_cast<unsigned char>(c)) & 0xff] ^ (crc >> 8);
  return ~crc;
}

}  // namespace dptrain
