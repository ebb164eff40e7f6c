// What ends a process whose calls know no deadline.
#include "comm/exit_timer.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "base/line_mark.h"

namespace dptrain {
namespace {

TEST(ExitTimerDeathTest, EndsTheProcessWithOneSentenceInTime) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(
      {
        const ExitTimer timer(0.01, ExitCode::job_not_formed, "it took too long");
        std::this_thread::sleep_for(std::chrono::seconds(60));
      },
      ::testing::ExitedWithCode(69), "^dptrain: it took too long\n$");
}

TEST(ExitTimerDeathTest, SaysWhichOfSeveralProcessesItEnds) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(
      {
        mark_lines_as_of_process(2);
        const ExitTimer timer(0.01, ExitCode::job_not_formed, "it took too long");
        std::this_thread::sleep_for(std::chrono::seconds(60));
      },
      ::testing::ExitedWithCode(69), "^\\[process 2\\] dptrain: it took too long\n$");
}

TEST(ExitTimerTest, IsNoMoreOnceItIsOver) {
  { const ExitTimer timer(0.05, ExitCode::job_not_formed, "it took too long"); }
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
}

}  // namespace
}  // namespace dptrain
