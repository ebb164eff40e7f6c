#include "parallel/worker_threads.h"

#include <gtest/gtest.h>

#include <atomic>

namespace dptrain::parallel {
namespace {

TEST(WorkerThreads, EveryThreadDoesEveryRoundInOrder) {
  constexpr int kThreads = 3, kRounds = 200;
  std::vector<std::vector<int>> seen(kThreads);
  std::atomic<int> entered = 0;
  {
    WorkerThreads threads(kThreads, [&](int) { ++entered; });
    for (int round = 0; round < kRounds; ++round)
      threads.give([&seen, round](int worker) { seen[static_cast<size_t>(worker)].push_back(round); });
  }
  EXPECT_EQ(entered, kThreads);
  for (const auto& rounds : seen) {
    ASSERT_EQ(rounds.size(), static_cast<size_t>(kRounds)) << "all that were given are done before the threads end";
    for (int round = 0; round < kRounds; ++round) EXPECT_EQ(rounds[static_cast<size_t>(round)], round);
  }
}

TEST(WorkerThreads, AThreadGoesOnWithTheNextRoundWhileOthersAreAtWork) {
  WorkerThreads threads(2, [](int) {});
  std::atomic<bool> second_begun = false;
  const int64_t first = threads.give([&](int worker) {
    // Thread 1 stays in the first round until thread 0 is in the second.
    while (worker == 1 && !second_begun) std::this_thread::yield();
  });
  const int64_t second = threads.give([&](int worker) {
    if (worker == 0) second_begun = true;
  });
  EXPECT_EQ(second, first + 1);
  threads.wait(second);
  EXPECT_TRUE(second_begun);
}

TEST(WorkerThreads, RunIsDoneWhenItReturns) {
  WorkerThreads threads(4, [](int) {});
  std::atomic<int> count = 0;
  for (int round = 1; round <= 50; ++round) {
    threads.run([&](int) { ++count; });
    EXPECT_EQ(count, 4 * round);
  }
}

}  // namespace
}  // namespace dptrain::parallel
