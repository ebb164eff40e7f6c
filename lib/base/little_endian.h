#pragma once

#include <concepts>
#include <cstddef>
#include <string>

namespace dptrain {

/// Appends the bytes of a number, lowest byte first.
template <std::unsigned_integral T>
void append_little_endian(std::string& bytes, T value) {
  for (size_t i = 0; i < sizeof(T); ++i) bytes.push_back(static_cast<char>((value >> (8 * i)) & 0xff));
}

}  // namespace dptrain
