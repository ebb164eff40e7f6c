#include "base/random.h"

#include <cmath>
#include <numbers>

namespace dptrain {
namespace {

/// Spreads (seed, purpose) over the 64 bits of the key: splitmix64's finalizer.
uint64_t mixed(uint64_t x) {
  x += 0x9E3779B97F4A7C15ull;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}

}  // namespace

std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  constexpr uint32_t kMultiply0 = 0xD2511F53u, kMultiply1 = 0xCD9E8D57u;
  constexpr uint32_t kWeyl0 = 0x9E3779B9u, kWeyl1 = 0xBB67AE85u;
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = uint64_t{kMultiply0} * counter[0];
    const uint64_t product1 = uint64_t{kMultiply1} * counter[2];
    counter = {static_cast<uint32_t>(product1 >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(product1),
               static_cast<uint32_t>(product0 >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(product0)};
    key[0] += kWeyl0;
    key[1] += kWeyl1;
  }
  return counter;
}

KeyedRandom::KeyedRandom(uint64_t seed, RandomPurpose purpose, uint32_t epoch, uint32_t subject)
    : epoch_(epoch), subject_(subject) {
  const uint64_t key = mixed(mixed(seed) ^ static_cast<uint64_t>(purpose));
  key_ = {static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32)};
}

std::array<uint32_t, 4> KeyedRandom::words(uint64_t block) const {
  return philox4x32({static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), subject_, epoch_}, key_);
}

uint32_t KeyedRandom::word(uint64_t position) const { return words(position / 4)[position % 4]; }

float KeyedRandom::uniform(uint64_t position) const { return static_cast<float>(word(position) >> 8) * 0x1.0p-24f; }

float KeyedRandom::normal(uint64_t position) const {
  const auto block = words(position / 2);
  const size_t first = 2 * (position % 2);
  // (word + 1) / 2^32 lies in (0, 1]: the logarithm is finite.
  const double radius = std::sqrt(-2.0 * std::log((block[first] + 1.0) * 0x1.0p-32));
  const double angle = 2.0 * std::numbers::pi * (block[first + 1] * 0x1.0p-32);
  return static_cast<float>(radius * std::cos(angle));
}

uint32_t KeyedRandom::below(uint64_t position, uint32_t bound) const {
  return static_cast<uint32_t>((uint64_t{word(position)} * bound) >> 32);
}

}  // namespace dptrain
