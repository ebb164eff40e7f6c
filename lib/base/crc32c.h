#pragma once

#include <cstdint>
#include <string_view>

namespace dptrain {

/// CRC-32C with Castagnoli's polynomial (RFC 3720, B.4). For "123456789" it is 0xe3069283.
uint32_t crc32c(std::string_view bytes);

}  // namespace dptrain
