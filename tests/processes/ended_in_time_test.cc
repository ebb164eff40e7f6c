// How long it takes, on an otherwise idle machine, until all others of a lost process have ended.
#include <algorithm>

#include "processes/watched_training.h"

namespace dptrain::testing {
namespace {

/// These tests time what they run, so nothing else may run at the same time.
class LongWatchdogTest : public WatchdogTest {
 protected:
  /// Seconds from a signal to one of two processes until the other one has ended.
  double seconds_until_ended(int signal) const {
    std::filesystem::remove_all(run("run"));
    Launch launch(job(/*grace_s=*/1));
    wait_until_trained(launch.launcher());
    const auto begun = Clock::now();
    ::kill(launch.pid(1), signal);
    launch.wait_for_ends({0}, 2 * kSilenceSeen_s);
    const double seconds = seconds_since(begun);
    EXPECT_EQ(launch.wait().processes[0].exit, 75);
    return seconds;
  }
};

TEST_F(LongWatchdogTest, ADeathOnTheSameHostEndsTheOtherWithinASecond) {
  std::vector<double> seconds;
  for (int trial = 0; trial < 5; ++trial) seconds.push_back(seconds_until_ended(SIGKILL));
  std::ranges::sort(seconds);
  EXPECT_LT(seconds[2], 1) << "of five the median; the longest took " << seconds[4] << " s";
}

TEST_F(LongWatchdogTest, SilenceEndsTheOtherWithinTenSeconds) { EXPECT_LT(seconds_until_ended(SIGSTOP), 10); }

}  // namespace
}  // namespace dptrain::testing
