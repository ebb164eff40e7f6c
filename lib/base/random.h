#pragma once

#include <array>
#include <cstdint>

namespace dptrain {

/// What a random number is drawn for. The values are part of every result: never renumber.
enum class RandomPurpose : uint32_t { shuffle = 1, initialize = 2, dropout = 3, synthetic = 4 };

/// The block of random words that a counter has under a key: Philox4x32-10 (Salmon et al., "Parallel random numbers: as
/// easy as 1, 2, 3", SC 2011).
std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

/// Random numbers by philox4x32 that depend on their key alone, never on how many were drawn before or by which thread.
/// The key is (seed, purpose); the counter is (epoch, subject, position), where the subject is a sample or a parameter.
class KeyedRandom {
 public:
  KeyedRandom(uint64_t seed, RandomPurpose purpose, uint32_t epoch, uint32_t subject);

  /// The four words of block number `block`.
  std::array<uint32_t, 4> words(uint64_t block) const;
  /// Word number `position`: the same as words(position / 4)[position % 4].
  uint32_t word(uint64_t position) const;
  /// Uniform in [0, 1), 24 bits.
  float uniform(uint64_t position) const;
  /// Standard normal, by Box and Muller from words 2 * position and 2 * position + 1.
  float normal(uint64_t position) const;
  /// An integer in [0, bound), bound > 0; bias below bound / 2^32.
  uint32_t below(uint64_t position, uint32_t bound) const;

 private:
  std::array<uint32_t, 2> key_;
  uint32_t epoch_;
  uint32_t subject_;
};

}  // namespace dptrain
