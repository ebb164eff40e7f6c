#include "base/median.h"

#include <gtest/gtest.h>

namespace dptrain {
namespace {

TEST(Median, IsInTheMiddleOrBetweenTheTwoThatAre) {
  EXPECT_EQ(median({3}), 3);
  EXPECT_EQ(median({9, 1, 4}), 4);
  EXPECT_EQ(median({9, 1, 4, 2}), 3);
}

}  // namespace
}  // namespace dptrain
