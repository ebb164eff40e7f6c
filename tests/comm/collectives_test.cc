// What every collective computes, over world sizes and lengths, in integer-valued numbers that any order sums exactly.
#include <atomic>
#include <numeric>

#include "comm/communicator_fixture.h"

namespace dptrain {
namespace {

// 70,000 and 300,000 are more than one piece of work, and no multiple of one.
const std::vector<int64_t> kLengths = {0, 1, 7, 1000, 70'000, 300'000};

/// Element i of rank r's values.
int64_t element(int rank, int64_t i) { return 1000 * rank + (i + 3 * rank) % 997; }

int64_t sum_of_elements(int ranks, int64_t i) {
  int64_t sum = 0;
  for (int r = 0; r < ranks; ++r) sum += element(r, i);
  return sum;
}

class CollectivesTest : public CommunicatorTest {
 protected:
  template <class T>
  Values<T> values_of(int rank, int64_t count) const {
    return values<T>(count, [&](int64_t i) { return element(rank, i); });
  }
  template <class T>
  Values<T> sums(int64_t count) const {
    return values<T>(count, [&](int64_t i) { return sum_of_elements(size(), i); });
  }

  template <class T>
  void expect_all_reduce(int64_t count) const {
    run([&](Communicator& comm) {
      Values<T> mine = values_of<T>(comm.rank(), count);
      comm.all_reduce(buffer_of(mine));
      EXPECT_TRUE(mine == sums<T>(count)) << dtype_name(dtype_of<T>()) << "[" << count << "]";
    });
  }
};

TEST_P(CollectivesTest, RanksKnowTheirPlaces) {
  const auto ranks = make();
  ASSERT_EQ(static_cast<int>(ranks.size()), size());
  for (int r = 0; r < size(); ++r) {
    EXPECT_EQ(ranks[r]->rank(), r);
    EXPECT_EQ(ranks[r]->size(), size());
  }
}

TEST_P(CollectivesTest, AllReduceSumsEveryDtype) {
  for (const int64_t count : kLengths) {
    expect_all_reduce<float>(count);
    expect_all_reduce<double>(count);
    expect_all_reduce<int32_t>(count);
    expect_all_reduce<int64_t>(count);
  }
}

TEST_P(CollectivesTest, AllReduceSumsAMillion) { expect_all_reduce<float>(1'000'000); }

TEST_P(CollectivesTest, TheOthersCarryAMillionToo) {
  constexpr int64_t kMillion = 1'000'000;
  run([&](Communicator& comm) {
    const int last = size() - 1;
    Values<float> mine = values_of<float>(comm.rank(), kMillion);
    comm.reduce(buffer_of(mine), last);
    EXPECT_TRUE(mine == (comm.rank() == last ? sums<float>(kMillion) : values_of<float>(comm.rank(), kMillion)));
    comm.broadcast(buffer_of(mine), last);
    EXPECT_TRUE(mine == sums<float>(kMillion));

    Values<float> part = values<float>(kMillion / 8, [](int64_t) { return -1; });
    Values<float> all = values_of<float>(comm.rank(), kMillion / 8 * size());
    comm.reduce_scatter(buffer_of(all), buffer_of(part));
    comm.all_gather(buffer_of(part), buffer_of(all));
    EXPECT_TRUE(all == sums<float>(kMillion / 8 * size()));
    comm.scatter(buffer_of(all), buffer_of(part), last);
    Values<float> back = values<float>(comm.rank() == last ? kMillion / 8 * size() : 0, [](int64_t) { return -1; });
    comm.gather(buffer_of(part), buffer_of(back), last);
    if (comm.rank() == last) {
      EXPECT_TRUE(back == all);
    }
  });
}

TEST_P(CollectivesTest, IntegerSumsWrapAround) {
  run([&](Communicator& comm) {
    Values<int64_t> mine = values<int64_t>(1, [](int64_t) { return INT64_MAX; });
    comm.all_reduce(buffer_of(mine));
    EXPECT_EQ(static_cast<uint64_t>(mine[0]), uint64_t{INT64_MAX} * static_cast<uint64_t>(size()));
  });
}

TEST_P(CollectivesTest, ReduceSumsIntoTheRootAndLeavesTheOthers) {
  for (const int64_t count : kLengths) {
    run([&](Communicator& comm) {
      for (int root = 0; root < size(); ++root) {
        Values<float> mine = values_of<float>(comm.rank(), count);
        comm.reduce(buffer_of(mine), root);
        EXPECT_TRUE(mine == (comm.rank() == root ? sums<float>(count) : values_of<float>(comm.rank(), count)));
      }
    });
  }
}

TEST_P(CollectivesTest, BroadcastCopiesTheRoot) {
  for (const int64_t count : kLengths) {
    run([&](Communicator& comm) {
      for (int root = 0; root < size(); ++root) {
        Values<uint8_t> mine = values_of<uint8_t>(comm.rank(), count);
        comm.broadcast(buffer_of(mine), root);
        EXPECT_TRUE(mine == values_of<uint8_t>(root, count));
      }
    });
  }
}

TEST_P(CollectivesTest, ReduceScatterGivesEachRankItsPart) {
  for (const int64_t part : kLengths) {
    run([&](Communicator& comm) {
      Values<float> in = values_of<float>(comm.rank(), part * size());
      Values<float> out = values<float>(part, [](int64_t) { return -1; });
      comm.reduce_scatter(buffer_of(in), buffer_of(out));
      EXPECT_TRUE(out ==
                  values<float>(part, [&](int64_t i) { return sum_of_elements(size(), comm.rank() * part + i); }));
      EXPECT_TRUE(in == values_of<float>(comm.rank(), part * size()));
    });
  }
}

TEST_P(CollectivesTest, AllGatherPutsPartsInTheOrderOfRanks) {
  for (const int64_t part : kLengths) {
    run([&](Communicator& comm) {
      Values<float> in = values_of<float>(comm.rank(), part);
      Values<float> out = values<float>(part * size(), [](int64_t) { return -1; });
      comm.all_gather(buffer_of(in), buffer_of(out));
      EXPECT_TRUE(out == values<float>(part * size(),
                                       [&](int64_t i) { return element(static_cast<int>(i / part), i % part); }));
    });
  }
}

TEST_P(CollectivesTest, ScatterAndAllGatherMayWorkInPlace) {
  run([&](Communicator& comm) {
    const int64_t part = 70'000;
    Values<float> all = values_of<float>(comm.rank(), part * size());
    const CommBuffer mine{.data = all.data() + part * comm.rank(), .elements = part, .dtype = DType::f32};
    comm.reduce_scatter(buffer_of(all), mine);
    comm.all_gather(mine, buffer_of(all));
    EXPECT_TRUE(all == sums<float>(part * size()));
  });
}

/// Parts of rank 0, 1...: uneven, and every third one empty.
int64_t uneven(int rank) { return rank % 3 == 1 ? 0 : 1 + 40'000 * rank; }

int64_t start_of(int rank) {
  int64_t start = 0;
  for (int r = 0; r < rank; ++r) start += uneven(r);
  return start;
}

TEST_P(CollectivesTest, GatherAndScatterTakeUnevenParts) {
  run([&](Communicator& comm) {
    const int rank = comm.rank();
    for (int root = 0; root < size(); ++root) {
      Values<double> part = values_of<double>(rank, uneven(rank));
      Values<double> all = values<double>(rank == root ? start_of(size()) : 0, [](int64_t) { return -1; });
      comm.gather(buffer_of(part), buffer_of(all), root);
      for (int r = 0; r < size() && rank == root; ++r) {
        const auto begin = all.begin() + start_of(r);
        EXPECT_TRUE(std::equal(begin, begin + uneven(r), values_of<double>(r, uneven(r)).begin())) << r;
      }
      Values<double> back = values<double>(uneven(rank), [](int64_t) { return -1; });
      comm.scatter(buffer_of(all), buffer_of(back), root);
      EXPECT_TRUE(back == part);
    }
  });
}

/// A rank sends nothing to itself: from two ranks on.
class MessagesTest : public CollectivesTest {};

TEST_P(MessagesTest, GoRoundARing) {
  run([&](Communicator& comm) {
    const int next = (comm.rank() + 1) % size(), previous = (comm.rank() + size() - 1) % size();
    for (const int64_t count : kLengths) {
      Values<float> out = values_of<float>(comm.rank(), count);
      Values<float> in = values<float>(count, [](int64_t) { return -1; });
      // Send and receive block until the other end is there, so rank 0 begins and the others pass on.
      if (comm.rank() == 0) comm.send(buffer_of(out), next);
      comm.receive(buffer_of(in), previous);
      if (comm.rank() != 0) comm.send(buffer_of(out), next);
      EXPECT_TRUE(in == values_of<float>(previous, count));
    }
  });
}

TEST_P(MessagesTest, OfAPairKeepTheirOrderAmongCollectives) {
  run([&](Communicator& comm) {
    const int last = size() - 1;
    for (int i = 0; i < 20; ++i) {
      Values<int32_t> number = values<int32_t>(1, [&](int64_t) { return comm.rank() == 0 ? i : -1; });
      if (comm.rank() == 0) comm.send(buffer_of(number), last);
      if (comm.rank() == last) comm.receive(buffer_of(number), 0);
      EXPECT_EQ(number[0], comm.rank() == 0 || comm.rank() == last ? i : -1);
      if (i % 5 == 0) comm.broadcast(buffer_of(number), last);
    }
  });
}

TEST_P(CollectivesTest, NobodyLeavesABarrierBeforeAllAreThere) {
  std::atomic<int> arrived = 0;
  run([&](Communicator& comm) {
    for (int i = 1; i <= 50; ++i) {
      ++arrived;
      comm.barrier();
      EXPECT_GE(arrived, i * size());
      comm.barrier();
    }
  });
}

TEST_P(CollectivesTest, CommunicatorsMayEndInAnyOrder) {
  auto ranks = make();
  outcomes_of(ranks, [](Communicator& comm) { comm.barrier(); });
  ranks.erase(ranks.begin());
  for (auto& rank : ranks) EXPECT_EQ(rank->size(), size());
}

DPTRAIN_EVERY_COMMUNICATOR(CollectivesTest, 1);
DPTRAIN_EVERY_COMMUNICATOR(MessagesTest, 2);

}  // namespace
}  // namespace dptrain
