#include "parallel/phase_clock.h"

#include <gtest/gtest.h>

#include <numeric>
#include <thread>

namespace dptrain::parallel {
namespace phase_clock_test {

void pass_time() { std::this_thread::sleep_for(std::chrono::milliseconds(5)); }

double total(const PhaseTimes& times) { return std::accumulate(times.seconds.begin(), times.seconds.end(), 0.0); }

TEST(PhaseClock, PhasesAddUpToTheTimeThatPassed) {
  PhaseClock clock;
  const auto before = Clock::now();
  clock.take();
  const auto inside = Clock::now();
  for (int i = 0; i < 100; ++i) {
    const InPhase computing(clock, Phase::compute);
    const InPhase communicating(clock, i % 2 == 0 ? Phase::communication : Phase::optimizer);
  }
  pass_time();
  const double least = seconds_since(inside);
  const double sum = total(clock.take());
  EXPECT_GE(sum, least - 1e-6);
  EXPECT_LE(sum, seconds_since(before) + 1e-6);
}

TEST(PhaseClock, AnInnerPhaseEndsInTheOuterOne) {
  PhaseClock clock;
  clock.take();
  {
    const InPhase computing(clock, Phase::compute);
    pass_time();
    {
      const InPhase communicating(clock, Phase::communication);
      pass_time();
    }
    pass_time();
  }
  const PhaseTimes times = clock.take();
  EXPECT_GE(times[Phase::compute], 0.010);
  EXPECT_GE(times[Phase::communication], 0.005);
  EXPECT_EQ(times[Phase::optimizer], 0);
}

TEST(PhaseClock, TakenTimesAreGone) {
  PhaseClock clock;
  {
    const InPhase computing(clock, Phase::compute);
    pass_time();
  }
  EXPECT_GT(clock.take()[Phase::compute], 0);
  EXPECT_EQ(clock.take()[Phase::compute], 0);
}

TEST(PhaseClock, AnExceptionEndsItsPhase) {
  PhaseClock clock;
  try {
    const InPhase computing(clock, Phase::compute);
    throw 1;
  } catch (int) {
  }
  clock.take();
  pass_time();
  EXPECT_EQ(clock.take()[Phase::compute], 0);
}

}  // namespace phase_clock_test
}  // namespace dptrain::parallel
