// CPU workers' conversions between bf16 and f32, for every bf16 number.
#include "ops/bf16_kernels.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <vector>

namespace dptrain::ops {
namespace bf16_kernels_test {

constexpr uint16_t kInfinity = 0x7f80;

float widened(uint16_t bits) {
  const Bfloat16 number{bits};
  float wide = 0;
  bf16_kernels().widen(&number, &wide, 1);
  return wide;
}

std::vector<Bfloat16> rounded(const std::vector<float>& values) {
  std::vector<Bfloat16> numbers(values.size());
  bf16_kernels().round(values.data(), numbers.data(), static_cast<int64_t>(values.size()));
  return numbers;
}

TEST(Bf16Kernels, EveryNumberComesBack) {
  std::vector<Bfloat16> all;
  for (uint32_t bits = 0; bits <= 0xffff; ++bits) all.push_back({static_cast<uint16_t>(bits)});
  std::vector<float> wide(all.size());
  bf16_kernels().widen(all.data(), wide.data(), static_cast<int64_t>(all.size()));
  const std::vector<Bfloat16> back = rounded(wide);
  for (size_t i = 0; i < all.size(); ++i) {
    if (std::isnan(wide[i]))
      ASSERT_TRUE(std::isnan(widened(back[i].bits))) << i;
    else
      ASSERT_EQ(back[i].bits, all[i].bits);
  }
}

TEST(Bf16Kernels, WhatLiesBetweenGoesToTheNearestAndFromTheMiddleToTheEven) {
  // The middle of each pair of neighbors and the floats beside it, including subnormal numbers, and the largest number
  // with infinity.
  std::vector<float> between;
  for (uint32_t lower = 0; lower < kInfinity; ++lower) {
    const uint32_t middle = lower << 16 | 0x8000;
    for (const uint32_t bits : {middle - 1, middle, middle + 1})
      for (const uint32_t sign : {0U, 0x80000000U}) between.push_back(std::bit_cast<float>(bits | sign));
  }
  const std::vector<Bfloat16> got = rounded(between);
  for (uint32_t lower = 0; lower < kInfinity; ++lower) {
    const uint32_t even = lower + lower % 2;
    const uint32_t right[] = {lower, lower, even, even, lower + 1, lower + 1};
    for (uint32_t i = 0; i < 6; ++i) ASSERT_EQ(got[6 * lower + i].bits, right[i] | (i % 2) << 15) << lower << ", " << i;
  }
}

}  // namespace bf16_kernels_test
}  // namespace dptrain::ops
