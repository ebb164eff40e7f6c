#include "plan/link_schedule.h"

#include <gtest/gtest.h>

namespace dptrain {
namespace {

using plan::LinkSchedule;

TEST(LinkSchedule, OperationsOfALinkFollowOnEachOther) {
  LinkSchedule schedule(3);
  EXPECT_FALSE(schedule.end(0));
  schedule.take(0, {.links = {1, 2}, .ready = 1, .seconds = 4});
  schedule.take(1, {.links = {2}, .ready = 2, .seconds = 3});
  schedule.take(2, {.links = {1}, .ready = 6, .seconds = 1});
  EXPECT_DOUBLE_EQ(*schedule.end(0), 5);
  EXPECT_DOUBLE_EQ(*schedule.end(1), 8);
  EXPECT_DOUBLE_EQ(*schedule.end(2), 7) << "its link is free";
}

TEST(LinkSchedule, WhatTakesAllLinksWaitsForAll) {
  LinkSchedule schedule(4);
  schedule.take(0, {.links = {1}, .ready = 0, .seconds = 4});
  schedule.take(1, {.links = {2}, .ready = 0, .seconds = 6});
  schedule.take(2, {.links = {}, .ready = 1, .seconds = 2});
  schedule.take(3, {.links = {3}, .ready = 1, .seconds = 1});
  EXPECT_DOUBLE_EQ(*schedule.end(2), 8);
  EXPECT_DOUBLE_EQ(*schedule.end(3), 9);
}

TEST(LinkSchedule, WhatHasAHigherPriorityInterruptsOthers) {
  LinkSchedule schedule(5);
  schedule.take(0, {.links = {}, .ready = 0, .seconds = 10});
  schedule.take(1, {.links = {}, .ready = 0, .seconds = 1});
  schedule.take(2, {.links = {}, .priority = 1, .ready = 4, .seconds = 3});
  EXPECT_DOUBLE_EQ(*schedule.end(2), 7);
  EXPECT_DOUBLE_EQ(*schedule.end(0), 13);
  EXPECT_DOUBLE_EQ(*schedule.end(1), 14);
  // A call waits behind an earlier call of the same priority, and goes before calls of a lower one.
  schedule.take(3, {.links = {}, .priority = 1, .ready = 5, .seconds = 2});
  EXPECT_DOUBLE_EQ(*schedule.end(3), 9);
  EXPECT_DOUBLE_EQ(*schedule.end(0), 15);
  // A call that has ended isn't delayed.
  schedule.take(4, {.links = {}, .priority = 2, .ready = 15, .seconds = 1});
  EXPECT_DOUBLE_EQ(*schedule.end(0), 15);
  EXPECT_DOUBLE_EQ(*schedule.end(1), 17);
}

TEST(LinkSchedule, WhatIsOnItsWayIsNotInterrupted) {
  LinkSchedule schedule(3);
  schedule.take(0, {.links = {}, .ready = 0, .seconds = 10});
  schedule.take(1, {.links = {}, .priority = 1, .ready = 4, .seconds = 3, .on_its_way_s = 2});
  EXPECT_DOUBLE_EQ(*schedule.end(1), 4 + 2 + 3);
  EXPECT_DOUBLE_EQ(*schedule.end(0), 13);
  // A call that is nearly over is delayed less.
  schedule.take(2, {.links = {}, .priority = 1, .ready = 12, .seconds = 1, .on_its_way_s = 2});
  EXPECT_DOUBLE_EQ(*schedule.end(2), 13 + 1);
}

}  // namespace
}  // namespace dptrain
