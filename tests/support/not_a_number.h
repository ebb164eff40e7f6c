#pragma once

#include <array>
#include <bit>
#include <cstdint>

namespace dptrain::testing {

/// NaNs as processors make them, and NaNs whose bits arithmetic on an exponent could turn into numbers.
constexpr std::array kNaNs = {std::bit_cast<float>(uint32_t{0x7fc00000}), std::bit_cast<float>(uint32_t{0xffc00000}),
                              std::bit_cast<float>(uint32_t{0x7fc00001}), std::bit_cast<float>(uint32_t{0x7fffffff}),
                              std::bit_cast<float>(uint32_t{0xffd55555})};

}  // namespace dptrain::testing
