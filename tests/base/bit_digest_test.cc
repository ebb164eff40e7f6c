#include "base/bit_digest.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

namespace dptrain {
namespace {

std::vector<std::byte> bytes_of(size_t count) {
  std::vector<std::byte> bytes(count);
  for (size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(i * 37 % 251);
  return bytes;
}

/// No two flipped bits give the same digest.
TEST(BitDigest, EveryBitThatFlipsMakesAnotherOne) {
  for (const size_t count : {1u, 7u, 8u, 63u, 64u, 65u, 200u}) {
    std::vector<std::byte> bytes = bytes_of(count);
    std::set<uint64_t> seen = {bit_digest(bytes)};
    for (size_t bit = 0; bit < 8 * count; ++bit) {
      const auto mask = static_cast<std::byte>(1U << (bit % 8));
      bytes[bit / 8] ^= mask;
      seen.insert(bit_digest(bytes));
      bytes[bit / 8] ^= mask;
    }
    EXPECT_EQ(seen.size(), 8 * count + 1) << count << " bytes";
  }
}

TEST(BitDigest, OrderAndLengthCount) {
  std::vector<std::byte> bytes = bytes_of(128);
  const uint64_t digest = bit_digest(bytes);
  EXPECT_EQ(bit_digest(bytes_of(128)), digest);
  std::swap_ranges(bytes.begin(), bytes.begin() + 64, bytes.begin() + 64);
  EXPECT_NE(bit_digest(bytes), digest);
  std::set<uint64_t> of_zeros;
  for (size_t count = 0; count < 200; ++count) of_zeros.insert(bit_digest(std::vector<std::byte>(count)));
  EXPECT_EQ(of_zeros.size(), 200u);
}

}  // namespace
}  // namespace dptrain
