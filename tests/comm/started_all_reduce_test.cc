// All-reduces that run while their ranks do something else.
#include <atomic>
#include <numeric>

#include "comm/communicator_fixture.h"

namespace dptrain {
namespace {

class StartedAllReduceTest : public CommunicatorTest {
 protected:
  int64_t sum_of_ranks() const { return size() * (size() + 1) / 2; }

  /// Bucket b of rank r, with (r + 1) (b + 1) in every element.
  Values<float> bucket(int rank, int b, int64_t count) const {
    return values<float>(count, [&](int64_t) { return (rank + 1) * (b + 1); });
  }
  bool is_summed(const Values<float>& bucket, int b) const {
    return std::ranges::all_of(bucket,
                               [&](float value) { return value == static_cast<float>(sum_of_ranks() * (b + 1)); });
  }
};

TEST_P(StartedAllReduceTest, ManyMayBeStartedBeforeTheFirstIsWaitedFor) {
  const std::vector<int64_t> counts = {7, 200'000, 0, 1, 65'536, 65'537, 1000, 131'072};
  for (const bool backwards : {false, true}) {
    run([&](Communicator& comm) {
      std::vector<Values<float>> buckets;
      for (size_t b = 0; b < counts.size(); ++b) buckets.push_back(bucket(comm.rank(), static_cast<int>(b), counts[b]));
      std::vector<std::unique_ptr<CommWork>> works;
      for (auto& values : buckets) works.push_back(comm.start_all_reduce(buffer_of(values)));
      for (size_t i = 0; i < works.size(); ++i) {
        const size_t b = backwards ? works.size() - 1 - i : i;
        works[b]->wait();
        EXPECT_TRUE(is_summed(buckets[b], static_cast<int>(b))) << b;
        works[b]->wait();  // waiting again does nothing
      }
    });
  }
}

TEST_P(StartedAllReduceTest, PrioritiesMayDifferAndChangeNoSum) {
  struct Call {
    int64_t count;
    int priority;
  };
  // Buffers of many pieces and of one, with higher priorities before and after lower ones.
  const std::vector<Call> calls = {{200'000, -3}, {7, 0},       {131'072, -1}, {65'537, 2}, {0, 5},
                                   {1000, -3},    {65'536, -2}, {1, 1},        {150'000, 0}};
  run([&](Communicator& comm) {
    for (int step = 0; step < 5; ++step) {
      std::vector<Values<float>> buckets;
      std::vector<std::unique_ptr<CommWork>> works;
      for (size_t b = 0; b < calls.size(); ++b)
        buckets.push_back(bucket(comm.rank(), static_cast<int>(b), calls[b].count));
      for (size_t b = 0; b < calls.size(); ++b)
        works.push_back(comm.start_prioritized_all_reduce(buffer_of(buckets[b]), calls[b].priority));
      std::vector<size_t> order(calls.size());
      std::iota(order.begin(), order.end(), size_t{0});
      // Waits in the order of priority, as the next forward pass would.
      std::ranges::stable_sort(order, [&](size_t a, size_t b) { return calls[a].priority > calls[b].priority; });
      for (const size_t b : order) {
        works[b]->wait();
        EXPECT_TRUE(is_summed(buckets[b], static_cast<int>(b))) << b;
      }
    }
  });
}

TEST_P(StartedAllReduceTest, ReducesToEveryRankMayBeStartedAmongThem) {
  const std::vector<int64_t> counts = {7, 200'000, 0, 65'537};
  run([&](Communicator& comm) {
    std::vector<Values<float>> buckets;
    std::vector<std::unique_ptr<CommWork>> works;
    // Starts a reduce to each rank in turn and an all-reduce last, and waits only when all have been started.
    for (int b = 0; b <= size(); ++b)
      buckets.push_back(bucket(comm.rank(), b, counts[static_cast<size_t>(b) % counts.size()]));
    for (int root = 0; root < size(); ++root)
      works.push_back(comm.start_reduce(buffer_of(buckets[static_cast<size_t>(root)]), root));
    works.push_back(comm.start_all_reduce(buffer_of(buckets.back())));
    for (const auto& work : works) work->wait();
    for (int b = 0; b <= size(); ++b) {
      const Values<float>& values = buckets[static_cast<size_t>(b)];
      const bool summed = b == comm.rank() || b == size();
      const auto kept = bucket(comm.rank(), b, static_cast<int64_t>(values.size()));
      EXPECT_TRUE(summed ? is_summed(values, b) : values == kept) << "to rank " << b;
    }
  });
}

TEST_P(StartedAllReduceTest, AllGathersMayBeStartedAmongThem) {
  run([&](Communicator& comm) {
    constexpr int64_t kPart = 1000;
    Values<float> summed = bucket(comm.rank(), 2, 65'537), part = bucket(comm.rank(), 0, kPart);
    Values<float> all = bucket(0, 0, kPart * size());
    const auto gathering = comm.start_all_gather(buffer_of(part), buffer_of(all));
    const auto summing = comm.start_all_reduce(buffer_of(summed));
    summing->wait();
    gathering->wait();
    EXPECT_TRUE(is_summed(summed, 2));
    for (size_t i = 0; i < all.size(); ++i)
      ASSERT_EQ(all[i], static_cast<float>(i / kPart + 1)) << "the part of rank " << i / kPart;
  });
}

class StartedAloneTest : public StartedAllReduceTest {};

TEST_P(StartedAloneTest, StartDoesntWaitForTheOthers) {
  std::atomic<int> started = 0;
  run([&](Communicator& comm) {
    Values<float> values = bucket(comm.rank(), 0, 100'000);
    // Each rank starts only after the rank before has returned from starting.
    while (started != comm.rank()) std::this_thread::yield();
    const auto work = comm.start_all_reduce(buffer_of(values));
    ++started;
    work->wait();
    EXPECT_TRUE(is_summed(values, 0));
  });
}

TEST_P(StartedAllReduceTest, OtherCallsMayComeBetweenStartAndWait) {
  run([&](Communicator& comm) {
    Values<float> first = bucket(comm.rank(), 0, 150'000), second = bucket(comm.rank(), 1, 1000);
    const auto work = comm.start_all_reduce(buffer_of(first));
    comm.barrier();
    comm.all_reduce(buffer_of(second));
    EXPECT_TRUE(is_summed(second, 1));
    work->wait();
    EXPECT_TRUE(is_summed(first, 0));
  });
}

TEST_P(StartedAllReduceTest, EndedWithoutWaitItIsFinishedFirst) {
  run([&](Communicator& comm) {
    Values<float> values = bucket(comm.rank(), 0, 200'000);
    comm.start_all_reduce(buffer_of(values)).reset();
    EXPECT_TRUE(is_summed(values, 0));
  });
}

/// Work that belongs to a device can't do this.
TEST_P(StartedAloneTest, WorkMayOutliveItsCommunicator) {
  auto ranks = make();
  std::vector<Values<float>> buckets;
  for (int r = 0; r < size(); ++r) buckets.push_back(bucket(r, 0, 100'000));
  std::vector<std::unique_ptr<CommWork>> works(size());
  outcomes_of(ranks,
              [&](Communicator& comm) { works[comm.rank()] = comm.start_all_reduce(buffer_of(buckets[comm.rank()])); });
  ranks.clear();
  for (auto& work : works) work->wait();
  for (const auto& values : buckets) EXPECT_TRUE(is_summed(values, 0));
}

TEST_P(StartedAllReduceTest, ManyStepsOfManyBuckets) {
  run([&](Communicator& comm) {
    for (int step = 0; step < 30; ++step) {
      std::vector<Values<float>> buckets;
      for (int b = 0; b < 6; ++b) buckets.push_back(bucket(comm.rank(), b, 3000 * b * b));
      std::vector<std::unique_ptr<CommWork>> works;
      for (auto& values : buckets) works.push_back(comm.start_all_reduce(buffer_of(values)));
      for (int b = 0; b < 6; ++b) {
        works[b]->wait();
        EXPECT_TRUE(is_summed(buckets[b], b));
      }
    }
  });
}

DPTRAIN_EVERY_COMMUNICATOR(StartedAllReduceTest, 1);
DPTRAIN_COMMUNICATORS(kinds_that_start_alone(), StartedAloneTest, 1);

}  // namespace
}  // namespace dptrain
