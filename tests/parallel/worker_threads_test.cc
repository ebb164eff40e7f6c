#include "parallel/worker_threads.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <thread>

#include "base/error.h"
#include "support/sanitizer.h"

namespace dptrain::parallel {
namespace worker_threads_test {

TEST(WorkerThreads, EveryThreadDoesEveryRoundInOrder) {
  constexpr int kThreads = 3, kRounds = 200;
  std::vector<std::vector<int>> seen(kThreads);
  {
    WorkerThreads threads(kThreads);
    for (int round = 0; round < kRounds; ++round)
      threads.give([&seen, round](int worker) { seen[static_cast<size_t>(worker)].push_back(round); });
  }
  for (const auto& rounds : seen) {
    ASSERT_EQ(rounds.size(), static_cast<size_t>(kRounds)) << "all that were given are done before the threads end";
    for (int round = 0; round < kRounds; ++round) EXPECT_EQ(rounds[static_cast<size_t>(round)], round);
  }
}

TEST(WorkerThreads, AThreadGoesOnWithTheNextRoundWhileOthersAreAtWork) {
  WorkerThreads threads(2);
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
  WorkerThreads threads(4);
  std::atomic<int> count = 0;
  for (int round = 1; round <= 50; ++round) {
    threads.run([&](int) { ++count; });
    EXPECT_EQ(count, 4 * round);
  }
}

/// Takes a while to destroy.
struct Held {
  explicit Held(std::atomic<int>& counter) : ended(counter) {}
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  ~Held() {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    ++ended;
  }
  std::atomic<int>& ended;
};

TEST(WorkerThreads, WhatARoundHeldHasEndedWhenTheRoundIsDone) {
  WorkerThreads threads(3);
  std::atomic<int> ended = 0;
  for (int round = 1; round <= 20; ++round) {
    threads.run([held = std::make_shared<Held>(ended)](int) {});
    ASSERT_EQ(ended, round);
  }
  threads.give([held = std::make_shared<Held>(ended)](int) {});
  threads.finish();
  EXPECT_EQ(ended, 21);
}

/// Starts more threads than fit into this process's address space, and exits with the code of the error.
[[noreturn]] void start_too_many() {
  const rlimit little{.rlim_cur = rlim_t{1} << 30, .rlim_max = rlim_t{1} << 30};
  ::setrlimit(RLIMIT_AS, &little);
  try {
    // Each thread needs megabytes for its stack.
    const WorkerThreads threads(10'000);
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    std::_Exit(static_cast<int>(error.code()));
  }
  std::_Exit(0);
}

TEST(WorkerThreads, WhereTheSystemStartsNoMoreThoseThatWereStartedEnd) {
  if (testing::kShadowedMemory) GTEST_SKIP() << testing::kShadowNeedsAddresses;
  EXPECT_EXIT(start_too_many(), ::testing::ExitedWithCode(71),
              "threads that compute: expected the system to start 10000, got [0-9]+ \\(.*\\); use fewer devices");
}

}  // namespace worker_threads_test
}  // namespace dptrain::parallel
