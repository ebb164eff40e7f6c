// 16-bit numbers: every one of them, and values between them.
#include "tensor/half_precision.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>

namespace dptrain {
namespace {

template <class T>
class HalfPrecision : public ::testing::Test {
 protected:
  static constexpr uint16_t kInfinity = dtype_of<T>() == DType::bf16 ? 0x7f80 : 0x7c00;
};

using Halves = ::testing::Types<Bfloat16, Float16>;
TYPED_TEST_SUITE(HalfPrecision, Halves);

TYPED_TEST(HalfPrecision, EveryNumberComesBack) {
  for (uint32_t bits = 0; bits <= 0xffff; ++bits) {
    const TypeParam number{static_cast<uint16_t>(bits)};
    const float wide = widened(number);
    ASSERT_EQ(std::isnan(wide), (bits & 0x7fff) > this->kInfinity) << bits;
    const TypeParam back = rounded_to<TypeParam>(wide);
    if (std::isnan(wide))
      ASSERT_TRUE(std::isnan(widened(back))) << bits;
    else
      ASSERT_EQ(back.bits, bits);
  }
}

TYPED_TEST(HalfPrecision, WhatLiesBetweenGoesToTheNearestAndFromTheMiddleToTheEven) {
  for (uint32_t lower = 0; lower + 1 < this->kInfinity; ++lower) {
    const float from = widened(TypeParam{static_cast<uint16_t>(lower)});
    const float to = widened(TypeParam{static_cast<uint16_t>(lower + 1)});
    const float middle = from + (to - from) / 2;
    for (const float sign : {1.f, -1.f}) {
      const uint32_t bit = sign < 0 ? 0x8000 : 0;
      ASSERT_EQ(rounded_to<TypeParam>(sign * middle).bits, (lower + lower % 2) | bit);
      ASSERT_EQ(rounded_to<TypeParam>(sign * std::nextafter(middle, from)).bits, lower | bit);
      ASSERT_EQ(rounded_to<TypeParam>(sign * std::nextafter(middle, to)).bits, (lower + 1) | bit);
    }
  }
}

TEST(Float16, HasTheNumbersOfIeee754) {
  EXPECT_EQ(widened(Float16{0x3c00}), 1.f);
  EXPECT_EQ(widened(Float16{0x7bff}), 65504.f);
  EXPECT_EQ(widened(Float16{0x0001}), 0x1p-24f);
  EXPECT_EQ(widened(Float16{0x8400}), -0x1p-14f);
  EXPECT_EQ(rounded_to<Float16>(65519.f).bits, 0x7bff);
  EXPECT_EQ(rounded_to<Float16>(65520.f).bits, 0x7c00) << "infinity";
  EXPECT_EQ(rounded_to<Float16>(-1e30f).bits, 0xfc00);
  EXPECT_EQ(rounded_to<Float16>(1e-30f).bits, 0);
}

}  // namespace
}  // namespace dptrain
