// A timer ends a process whose calls have no deadline.
#include "comm/exit_timer.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <thread>
#include <vector>

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

/// Replaces stderr by a full pipe that nothing reads.
void fill_stderr() {
  std::array<int, 2> ends = {};
  if (::pipe(ends.data()) != 0 || ::fcntl(ends[1], F_SETFL, O_NONBLOCK) != 0) std::exit(1);
  const std::vector<char> much(4096);
  while (::write(ends[1], much.data(), much.size()) > 0) continue;
  if (::fcntl(ends[1], F_SETFL, 0) != 0 || ::dup2(ends[1], STDERR_FILENO) < 0) std::exit(1);
}

TEST(ExitTimerDeathTest, WaitsForNobodyWhoDoesNotReadWhatItSays) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(
      {
        fill_stderr();
        const ExitTimer timer(0.01, ExitCode::job_not_formed, "it took too long");
        std::this_thread::sleep_for(std::chrono::seconds(60));
      },
      ::testing::ExitedWithCode(69), "");
}

TEST(ExitTimerTest, IsNoMoreOnceItIsOver) {
  { const ExitTimer timer(0.05, ExitCode::job_not_formed, "it took too long"); }
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
}

}  // namespace
}  // namespace dptrain
