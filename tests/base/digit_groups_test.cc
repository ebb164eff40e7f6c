#include "base/digit_groups.h"

#include <gtest/gtest.h>

namespace dptrain {
namespace {

TEST(DigitGroups, AreOfThreeFromTheRight) {
  EXPECT_EQ(digit_groups(0), "0");
  EXPECT_EQ(digit_groups(999.4), "999");
  EXPECT_EQ(digit_groups(1000), "1,000");
  EXPECT_EQ(digit_groups(1234567.8), "1,234,568");
}

}  // namespace
}  // namespace dptrain
