#include "base/random.h"

#include <cmath>
#include <numbers>

namespace dptrain {
uint32_t KeyedRandom::word(uint64_t position) const { return words(position / 4)[position % 4]; }

float KeyedRandom::uniform(uint64_t position) const { return static_cast<float>(word(position) >> 8) * 0x1.0p-24f; }

float KeyedRandom::normal(uint64_t position) const {
  const auto block = words(position / 2);
  const size_t first = 2 * (position % 2);
  // (word + 1) / 2^32 is in (0, 1], so the logarithm is finite.
  const double radius = std::sqrt(-2.0 * std::log((block[first] + 1.0) * 0x1.0p-32));
  const double angle = 2.0 * std::numbers::pi * (block[first + 1] * 0x1.0p-32);
  return static_cast<float>(radius * std::cos(angle));
}

uint32_t KeyedRandom::below(uint64_t position, uint32_t bound) const { return word_below(word(position), bound); }

}  // namespace dptrain
