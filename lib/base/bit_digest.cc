#include "base/bit_digest.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

namespace dptrain {
namespace {

using Word = uint64_t;
/// Each lane has its own chain of products, so that a processor works on several at once.
constexpr size_t kLanes = 8;
/// The round of xxHash64 (Collet, xxhash.com), with its first two primes. It is one-to-one in `state` for any word, and
/// in `word` for any state, so a difference never disappears. The products spread a bit to the bits above it. The
/// rotation moves those down, so that the next product spreads them again.
Word mixed(Word state, Word word) {
  constexpr Word kFirst = 0x9e3779b185ebca87, kSecond = 0xc2b2ae3d27d4eb4f;
  return std::rotl(state + word * kSecond, 31) * kFirst;
}

}  // namespace

uint64_t bit_digest(std::span<const std::byte> bytes) {
  std::array<Word, kLanes> lanes{};
  std::array<Word, kLanes> words{};
  for (size_t at = 0; at < bytes.size(); at += sizeof words) {
    const size_t count = std::min(sizeof words, bytes.size() - at);
    if (count < sizeof words) words = {};
    std::memcpy(words.data(), bytes.data() + at, count);
    for (size_t i = 0; i < kLanes; ++i) lanes[i] = mixed(lanes[i], words[i]);
  }
  Word digest = bytes.size();
  for (const Word lane : lanes) digest = mixed(digest, lane);
  return digest;
}

}  // namespace dptrain
