// The block function against the known answers that its authors publish (Random123's kat_vectors, philox4x32 10).

#include <gtest/gtest.h>

#include "base/random.h"

namespace dptrain {
namespace {

using Words = std::array<uint32_t, 4>;

TEST(Philox, GivesTheKnownAnswers) {
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}), (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, EveryWordOfCounterAndKeyMatters) {
  const Words base = philox4x32({1, 2, 3, 4}, {5, 6});
  for (size_t i = 0; i < 4; ++i) {
    Words counter = {1, 2, 3, 4};
    ++counter[i];
    EXPECT_NE(philox4x32(counter, {5, 6}), base) << "counter word " << i;
  }
  EXPECT_NE(philox4x32({1, 2, 3, 4}, {6, 6}), base);
  EXPECT_NE(philox4x32({1, 2, 3, 4}, {5, 7}), base);
}

}  // namespace
}  // namespace dptrain
