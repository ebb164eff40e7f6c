#include "parallel/store_scheduler.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "base/clock.h"
#include "comm/thread_communicator.h"
#include "support/expect_error.h"

namespace dptrain::parallel {
namespace store_scheduler_test {

using testing::expect_error;

/// A scheduler with the workers' ends of its links.
class SchedulerTest : public ::testing::Test {
 protected:
  void start(int workers, std::optional<int64_t> max_staleness, double timeout_s = 60) {
    std::vector<std::unique_ptr<Communicator>> ends;
    for (int w = 0; w < workers; ++w) {
      auto pair = make_thread_communicators(2, {.timeout_s = 60});
      links_.push_back(std::make_unique<SchedulerLink>(std::move(pair[0])));
      ends.push_back(std::move(pair[1]));
    }
    scheduler_ = std::make_unique<StoreScheduler>(std::move(ends), max_staleness, timeout_s);
  }
  bool may_begin(size_t worker, int64_t step, int signal = 0) { return links_[worker]->may_begin(step, signal); }

  std::unique_ptr<StoreScheduler> scheduler_;
  std::vector<std::unique_ptr<SchedulerLink>> links_;  ///< destroyed before the scheduler
};

TEST_F(SchedulerTest, WithoutABoundNobodyIsHeldBack) {
  start(2, std::nullopt);
  for (int64_t step = 1; step <= 20; ++step) EXPECT_TRUE(may_begin(0, step));
}

TEST_F(SchedulerTest, HoldsBackWhoIsTooFarAhead) {
  start(2, 2);
  EXPECT_TRUE(may_begin(1, 1));
  for (int64_t step = 1; step <= 3; ++step) EXPECT_TRUE(may_begin(0, step));
  std::atomic<bool> began = false;
  std::thread ahead([&] { began = may_begin(0, 4); });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_FALSE(began) << "three steps ahead";
  EXPECT_TRUE(may_begin(1, 2));
  ahead.join();
  EXPECT_TRUE(began);
}

TEST_F(SchedulerTest, WhoHasEndedHoldsNobodyBack) {
  start(2, 1);
  EXPECT_TRUE(may_begin(1, 1));
  links_[1].reset();
  for (int64_t step = 1; step <= 3; ++step) EXPECT_TRUE(may_begin(0, step));
}

TEST_F(SchedulerTest, AllStopAfterTheSameStep) {
  start(3, std::nullopt);
  for (int64_t step = 1; step <= 5; ++step) EXPECT_TRUE(may_begin(0, step));
  EXPECT_TRUE(may_begin(1, 2));
  EXPECT_TRUE(may_begin(2, 3, 15)) << "its own step is still below the latest";
  // The first worker is at step 5: all others may begin that step, and none may pass it.
  EXPECT_FALSE(may_begin(0, 6));
  for (const size_t worker : {1u, 2u}) {
    for (int64_t step = worker + 2; step <= 5; ++step) EXPECT_TRUE(may_begin(worker, step));
    EXPECT_FALSE(may_begin(worker, 6));
  }
}

TEST_F(SchedulerTest, AStopLetsGoWhoIsHeldBack) {
  start(2, 1);
  EXPECT_TRUE(may_begin(1, 1));
  for (const int64_t step : {1, 2}) EXPECT_TRUE(may_begin(0, step));
  std::atomic<int> answer = -1;
  std::thread ahead([&] { answer = may_begin(0, 3); });
  // Whether or not the first worker had reached step 3 before, it is no longer held back.
  while (may_begin(1, 1, 15) && answer < 0) std::this_thread::yield();
  ahead.join();
  EXPECT_GE(answer, 0);
}

TEST_F(SchedulerTest, LetsWorkersMeetHoweverSlowOneIs) {
  start(2, std::nullopt, 0.2);
  std::thread early([&] { links_[0]->meet(); });
  for (int64_t step = 1; step <= 6; ++step) {
    std::this_thread::sleep_for(std::chrono::milliseconds(60));
    EXPECT_TRUE(may_begin(1, step)) << "longer than the deadline in all, but not at once";
  }
  links_[1]->meet();
  early.join();
}

TEST_F(SchedulerTest, WhoWaitsTooLongForTheSlowestEndsAll) {
  start(2, 1, 0.05);
  EXPECT_TRUE(may_begin(1, 1));
  for (const int64_t step : {1, 2}) EXPECT_TRUE(may_begin(0, step));
  expect_error(ExitCode::peer_lost, {"worker 0", "0.05 s", "none of them has begun a step"}, [&] { may_begin(0, 3); });
  expect_error(ExitCode::peer_lost, {"worker 0"}, [&] { scheduler_->wait(); });
}

}  // namespace store_scheduler_test
}  // namespace dptrain::parallel
