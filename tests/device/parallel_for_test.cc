// Every index is visited once, with any number of threads.

#include "device/parallel_for.h"

#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <vector>

#include "support/test_device.h"

namespace dptrain {
namespace {

class ParallelFor : public ::testing::TestWithParam<int> {};

TEST_P(ParallelFor, VisitsEveryIndexOnce) {
  const auto device = testing::test_device(GetParam());
  for (const int64_t count : {0, 1, 2, 3, 7, 1000}) {
    std::vector<std::atomic<int>> visits(static_cast<size_t>(count));
    parallel_for(*device, count, [&](int64_t i) { ++visits[static_cast<size_t>(i)]; });
    for (const auto& visit : visits) EXPECT_EQ(visit, 1) << count << " indices";
  }
}

TEST_P(ParallelFor, RangesCoverEveryElementOnceInWholeGrains) {
  const auto device = testing::test_device(GetParam());
  for (const int64_t count : {0, 1, 15, 16, 17, 47, 48, 1000}) {
    SCOPED_TRACE(count);
    std::vector<int> visits(static_cast<size_t>(count));
    std::mutex mutex;
    parallel_ranges(*device, count, 16, [&](int64_t begin, int64_t end) {
      const std::lock_guard lock(mutex);
      EXPECT_LT(begin, end);
      EXPECT_EQ(begin % 16, 0);
      EXPECT_TRUE(end % 16 == 0 || end == count);
      for (int64_t i = begin; i < end; ++i) ++visits.at(static_cast<size_t>(i));
    });
    EXPECT_EQ(visits, std::vector<int>(static_cast<size_t>(count), 1));
  }
}

INSTANTIATE_TEST_SUITE_P(Threads, ParallelFor, ::testing::Values(1, 2, 3, 5), ::testing::PrintToStringParamName());

}  // namespace
}  // namespace dptrain
