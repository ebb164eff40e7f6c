#include "base/finite.h"

#include <bit>
#include <cstdint>

namespace dptrain {

bool are_finite(std::span<const float> values) {
  // The loop checks all values, so the compiler can vectorize it. A search for the first one could not be vectorized.
  constexpr uint32_t kExponent = 0x7f800000;
  uint32_t others = 0;
  for (const float value : values) others |= (std::bit_cast<uint32_t>(value) & kExponent) == kExponent ? 1U : 0U;
  return others == 0;
}

}  // namespace dptrain
