#include "parallel/store_slices.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace dptrain::parallel {
namespace store_slices_test {

/// Adjacent keys of these numbers of elements.
std::vector<StoreKey> keys_with(const std::vector<int64_t>& elements) {
  std::vector<StoreKey> keys;
  int64_t begin = 0;
  for (const int64_t count : elements) {
    keys.push_back({.name = "k" + std::to_string(keys.size()), .begin = begin, .end = begin + count});
    begin += count;
  }
  return keys;
}

void expect_all_once(const std::vector<StoreSlice>& slices, const std::vector<StoreKey>& keys) {
  int64_t end = 0;
  for (const StoreSlice& slice : slices) {
    EXPECT_EQ(slice.begin, end);
    EXPECT_EQ(slice.begin % 16, 0);
    EXPECT_GE(slice.begin, keys[slice.key].begin);
    EXPECT_LE(slice.end, keys[slice.key].end);
    end = slice.end;
  }
  EXPECT_EQ(end, keys.back().end);
}

std::vector<int64_t> elements_of_servers(const std::vector<StoreSlice>& slices, size_t servers) {
  std::vector<int64_t> elements(servers);
  for (const StoreSlice& slice : slices) elements[static_cast<size_t>(slice.server)] += slice.elements();
  return elements;
}

TEST(SliceKeys, LargeKeysAreCutSoThatServersHoldAboutAsMuch) {
  const auto keys = keys_with({32, 512, 48, 102400, 128, 25600, 16});
  for (const int servers : {1, 2, 3, 5}) {
    const auto slices = slice_keys(keys, servers, Placement::balanced);
    expect_all_once(slices, keys);
    const auto elements = elements_of_servers(slices, static_cast<size_t>(servers));
    EXPECT_LT(*std::ranges::max_element(elements), *std::ranges::min_element(elements) * 1.05) << servers;
  }
}

TEST(SliceKeys, RoundRobinKeepsKeysWhole) {
  const auto keys = keys_with({32, 512, 102400, 128});
  const auto slices = slice_keys(keys, 2, Placement::round_robin);
  expect_all_once(slices, keys);
  ASSERT_EQ(slices.size(), 4u);
  for (size_t k = 0; k < 4; ++k) EXPECT_EQ(slices[k].server, static_cast<int>(k % 2));
}

TEST(SliceKeys, AKeyOfFewerBlocksThanServersHasNoEmptySlices) {
  const auto slices = slice_keys(keys_with({32}), 3, Placement::balanced);
  ASSERT_EQ(slices.size(), 2u);
  for (const StoreSlice& slice : slices) EXPECT_EQ(slice.elements(), 16);
}

}  // namespace store_slices_test
}  // namespace dptrain::parallel
