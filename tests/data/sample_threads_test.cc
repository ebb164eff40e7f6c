#include "data/sample_threads.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <stdexcept>
#include <string>

#include "base/clock.h"

namespace dptrain {
namespace {

TEST(SampleThreads, EverySampleIsLoadedOnce) {
  for (const int threads : {1, 2, 3, 8}) {
    SampleThreads loading(threads);
    for (const int64_t count : {0, 1, 7, 64, 1000}) {
      SCOPED_TRACE(::testing::Message() << threads << " threads, " << count << " samples");
      std::vector<std::atomic<int>> loads(static_cast<size_t>(count));
      loading.run(count, 5, [&](int64_t begin, int64_t end) {
        EXPECT_LE(end - begin, threads == 1 ? count : 5) << "alone it need not be cut";
        for (int64_t n = begin; n < end; ++n) ++loads[static_cast<size_t>(n)];
      });
      EXPECT_TRUE(std::ranges::all_of(loads, [](const auto& n) { return n == 1; }));
    }
  }
}

TEST(SampleThreads, AllOfThemLoadAtOnce) {
  SampleThreads loading(3);
  std::atomic<int> inside = 0;
  const auto deadline = deadline_in(20);
  loading.run(3, 1, [&](int64_t, int64_t) {
    ++inside;
    while (inside < 3 && Clock::now() < deadline) std::this_thread::yield();
    EXPECT_EQ(inside, 3) << "each run waits for two others";
  });
  EXPECT_EQ(inside, 3);
}

TEST(SampleThreads, OfSeveralFailuresThatOfTheFirstSampleIsTold) {
  SampleThreads loading(4);
  for (int round = 0; round < 50; ++round) {
    try {
      loading.run(100, 1, [](int64_t begin, int64_t) {
        if (begin == 10) std::this_thread::yield();
        if (begin >= 10) throw std::runtime_error("sample " + std::to_string(begin));
      });
      ADD_FAILURE() << "nothing was thrown";
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "sample 10");
    }
  }
}

TEST(SampleThreads, WhatOneThrowsIsThrownOnceAllHaveEnded) {
  SampleThreads loading(4);
  for (int round = 0; round < 20; ++round) {
    std::atomic<int> inside = 0;
    EXPECT_THROW(loading.run(100, 1,
                             [&](int64_t begin, int64_t) {
                               ++inside;
                               if (begin == 10) {
                                 --inside;
                                 throw std::runtime_error("a picture that isn't one");
                               }
                               std::this_thread::yield();
                               --inside;
                             }),
                 std::runtime_error);
    EXPECT_EQ(inside, 0);
  }
  std::atomic<int64_t> loaded = 0;
  loading.run(100, 1, [&](int64_t, int64_t) { ++loaded; });
  EXPECT_EQ(loaded, 100) << "they go on after that";
}

}  // namespace
}  // namespace dptrain
