// The result of every collective, over world sizes and lengths, in integer-valued numbers whose sum is exact in any
// order.
#include <atomic>
#include <numeric>

#include "comm/communicator_fixture.h"
#include "support/sanitizer.h"

namespace dptrain {
namespace {

/// 70,000 and a million elements are more than one piece of work, and no multiple of a piece. ThreadSanitizer watches
/// each element, so there the million alone would cost ten times what all other lengths cost.
std::vector<int64_t> lengths() {
  std::vector<int64_t> lengths = {0, 1, 7, 1000, 70'000};
  if (!testing::kThreadSanitizer) lengths.push_back(1'000'000);
  return lengths;
}

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
    const Values<T> expected = sums<T>(count);
    run([&](Communicator& comm) {
      Values<T> mine = values_of<T>(comm.rank(), count);
      comm.all_reduce(buffer_of(mine));
      EXPECT_TRUE(mine == expected) << dtype_name(dtype_of<T>()) << "[" << count << "]";
    });
  }

  /// Expects gather and scatter to work with every rank as root, where rank r's part has parts[r] elements.
  void expect_gathered_and_scattered(const std::vector<int64_t>& parts) const {
    Values<double> gathered = values<double>(0, [](int64_t) { return 0; });
    for (int r = 0; r < size(); ++r) std::ranges::copy(values_of<double>(r, parts[r]), std::back_inserter(gathered));
    const auto elements = static_cast<int64_t>(gathered.size());
    run([&](Communicator& comm) {
      const Values<double> own = values_of<double>(comm.rank(), parts[comm.rank()]);
      const auto unset = [&](int64_t count) { return values<double>(count, [](int64_t) { return -1; }); };
      for (int root = 0; root < size(); ++root) {
        Values<double> part(own, kind().memory), back = unset(parts[comm.rank()]),
                                                 all = unset(comm.rank() == root ? elements : 0);
        comm.gather(buffer_of(part), buffer_of(all), root);
        EXPECT_TRUE(comm.rank() != root || all == gathered);
        comm.scatter(buffer_of(all), buffer_of(back), root);
        EXPECT_TRUE(back == own);
      }
    });
  }
};

TEST_P(CollectivesTest, RanksKnowTheirPlaces) {
  const auto ranks = make();
  ASSERT_EQ(static_cast<int>(ranks.size()), size());
  for (int r = 0; r < size(); ++r) {
    if (ranks[r] == nullptr) continue;
    EXPECT_EQ(ranks[r]->rank(), r);
    EXPECT_EQ(ranks[r]->size(), size());
  }
}

TEST_P(CollectivesTest, AllReduceSumsEveryDtype) {
  for (const int64_t count : lengths()) {
    expect_all_reduce<float>(count);
    expect_all_reduce<double>(count);
    expect_all_reduce<int32_t>(count);
    expect_all_reduce<int64_t>(count);
  }
}

TEST_P(CollectivesTest, IntegerSumsWrapAround) {
  run([&](Communicator& comm) {
    Values<int64_t> mine = values<int64_t>(1, [](int64_t) { return INT64_MAX; });
    comm.all_reduce(buffer_of(mine));
    EXPECT_EQ(static_cast<uint64_t>(mine[0]), uint64_t{INT64_MAX} * static_cast<uint64_t>(size()));
  });
}

TEST_P(CollectivesTest, ReduceSumsIntoTheRootAndLeavesTheOthers) {
  for (const int64_t count : lengths()) {
    const Values<float> expected = sums<float>(count);
    run([&](Communicator& comm) {
      const Values<float> own = values_of<float>(comm.rank(), count);
      for (int root = 0; root < size(); ++root) {
        Values<float> mine(own, kind().memory);
        comm.reduce(buffer_of(mine), root);
        EXPECT_TRUE(mine == (comm.rank() == root ? expected : own));
      }
    });
  }
}

TEST_P(CollectivesTest, BroadcastCopiesTheRoot) {
  for (const int64_t count : lengths()) {
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
  for (const int64_t part : lengths()) {
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
  for (const int64_t part : lengths()) {
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

TEST_P(CollectivesTest, GatherAndScatterTakeEqualParts) {
  for (const int64_t part : lengths())
    expect_gathered_and_scattered(std::vector<int64_t>(static_cast<size_t>(size()), part));
}

TEST_P(CollectivesTest, GatherAndScatterTakeUnevenParts) {
  std::vector<int64_t> parts;
  for (int r = 0; r < size(); ++r) parts.push_back(r % 3 == 1 ? 0 : 1 + 40'000 * r);
  expect_gathered_and_scattered(parts);
}

/// Needs two ranks, since a rank sends nothing to itself.
class MessagesTest : public CollectivesTest {};

TEST_P(MessagesTest, GoRoundARing) {
  run([&](Communicator& comm) {
    const int next = (comm.rank() + 1) % size(), previous = (comm.rank() + size() - 1) % size();
    for (const int64_t count : lengths()) {
      Values<float> out = values_of<float>(comm.rank(), count);
      Values<float> in = values<float>(count, [](int64_t) { return -1; });
      // Send and receive block until the other end is there, so rank 0 sends first and the others pass the message on.
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
  for (auto& rank : ranks) {
    if (rank == nullptr) continue;
    EXPECT_EQ(rank->size(), size());
  }
}

DPTRAIN_EVERY_COMMUNICATOR(CollectivesTest, 1);
DPTRAIN_EVERY_COMMUNICATOR(MessagesTest, 2);

}  // namespace
}  // namespace dptrain
