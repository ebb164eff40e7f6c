// How a log records operators that run inside others.

#include "device/operator_log.h"

#include <gtest/gtest.h>

namespace dptrain {
namespace {

TEST(OperatorLog, TheWayIsThatOfTheInnermostOpenOperator) {
  OperatorLog log;
  const size_t outer = log.begin("conv2d");
  const size_t inner = log.begin("reorder");
  log.goes_by("tiles");
  log.end(inner, 0, 0, 0);
  log.goes_by("winograd");
  log.end(outer, 0, 0, 0);
  log.goes_by("nothing's");
  ASSERT_EQ(log.costs().size(), 2u);
  EXPECT_EQ(log.costs()[0].way, "winograd");
  EXPECT_FALSE(log.costs()[0].inside);
  EXPECT_EQ(log.costs()[1].way, "tiles");
  EXPECT_TRUE(log.costs()[1].inside);
}

}  // namespace
}  // namespace dptrain
