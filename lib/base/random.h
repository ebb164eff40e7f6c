#pragma once

#include <array>
#include <cstdint>

namespace dptrain {

/// The purpose of a random number. The values are part of every result: never renumber them.
enum class RandomPurpose : uint32_t {
  shuffle = 1,
  initialize = 2,
  dropout = 3,
  synthetic = 4,
  sentence_pairs = 5,
  masked_tokens = 6,
  augmentation = 7,
  compression = 8
};

/// The block of random words for a counter and a key: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy
/// as 1, 2, 3", SC 2011).
constexpr std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
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

/// Maps a random word to an integer in [0, bound), bound > 0; bias below bound / 2^32.
constexpr uint32_t word_below(uint32_t word, uint32_t bound) {
  return static_cast<uint32_t>((uint64_t{word} * bound) >> 32);
}

/// Random numbers from philox4x32 that depend only on their key and counter, never on how many were drawn before or by
/// which thread. The key is (seed, purpose). The counter is (epoch, subject, position), where the subject is a sample
/// or a parameter.
class KeyedRandom {
 public:
  constexpr KeyedRandom(uint64_t seed, RandomPurpose purpose, uint32_t epoch, uint32_t subject)
      : epoch_(epoch), subject_(subject) {
    const uint64_t key = mixed(mixed(seed) ^ static_cast<uint64_t>(purpose));
    key_ = {static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32)};
  }

  /// The key of philox4x32, for code that computes many blocks at once.
  constexpr const std::array<uint32_t, 2>& key() const { return key_; }

  /// The four words of block number `block`.
  constexpr std::array<uint32_t, 4> words(uint64_t block) const {
    return philox4x32({static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), subject_, epoch_}, key_);
  }
  /// Word number `position`: the same as words(position / 4)[position % 4].
  uint32_t word(uint64_t position) const;
  /// Uniform in [0, 1), 24 bits.
  float uniform(uint64_t position) const;
  /// Standard normal, by Box and Muller from words 2 * position and 2 * position + 1.
  float normal(uint64_t position) const;
  /// An integer in [0, bound), bound > 0; bias below bound / 2^32.
  uint32_t below(uint64_t position, uint32_t bound) const;

 private:
  /// Spreads (seed, purpose) over the 64 bits of the key, by splitmix64's finalizer.
  static constexpr uint64_t mixed(uint64_t x) {
    x += 0x9E3779B97F4A7C15ull;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
    return x ^ (x >> 31);
  }

  std::array<uint32_t, 2> key_{};
  uint32_t epoch_;
  uint32_t subject_;
};

}  // namespace dptrain
