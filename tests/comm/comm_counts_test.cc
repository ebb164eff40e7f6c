// The bytes that `counts` reports: each rank's share by formula. The shares add up to what must cross between ranks.
#include "comm/communicator_fixture.h"

namespace dptrain {
namespace {

class CommCountsTest : public CommunicatorTest {
 protected:
  /// The bytes that each rank sends in `function`.
  std::vector<int64_t> bytes_of(const RankFunction& function, int64_t collectives = 1) const {
    auto ranks = make();
    for (const Outcome& outcome : outcomes_of(ranks, function)) EXPECT_EQ(outcome, Outcome{});
    std::vector<int64_t> bytes;
    for (const auto& rank : ranks) {
      bytes.push_back(rank->counts().bytes);
      EXPECT_EQ(rank->counts().collectives, collectives);
    }
    return bytes;
  }

  /// The value bytes(rank) of every rank.
  template <class F>
  std::vector<int64_t> each(F bytes) const {
    std::vector<int64_t> result;
    for (int r = 0; r < size(); ++r) result.push_back(bytes(r));
    return result;
  }

  Values<float> zeros(int64_t count) const {
    return values<float>(count, [](int64_t) { return 0; });
  }
};

TEST_P(CommCountsTest, AllReduceSharesAddUpExactly) {
  for (const int64_t count : {0, 1, 7, 1000}) {
    const auto bytes = bytes_of([&](Communicator& comm) {
      Values<float> mine = zeros(count);
      comm.all_reduce(buffer_of(mine));
    });
    const int64_t total = 2 * (size() - 1) * count * 4;
    int64_t sum = 0;
    for (const int64_t share : bytes) {
      sum += share;
      EXPECT_LE(std::abs(share - total / size()), 1);
    }
    EXPECT_EQ(sum, total);
  }
}

TEST_P(CommCountsTest, RootedCollectives) {
  const int root = size() / 2;
  EXPECT_EQ(bytes_of([&](Communicator& comm) {
              Values<float> mine = zeros(10);
              comm.reduce(buffer_of(mine), root);
            }),
            each([&](int r) { return r == root ? 0 : 40; }));
  EXPECT_EQ(bytes_of([&](Communicator& comm) {
              Values<float> mine = zeros(10);
              comm.broadcast(buffer_of(mine), root);
            }),
            each([&](int r) { return r == root ? 40 * (size() - 1) : 0; }));
  // Rank r's part has r + 1 elements.
  const int64_t whole = size() * (size() + 1) / 2;
  EXPECT_EQ(bytes_of([&](Communicator& comm) {
              Values<float> part = zeros(comm.rank() + 1), all = zeros(whole);
              comm.gather(buffer_of(part), buffer_of(all), root);
            }),
            each([&](int r) { return r == root ? 0 : 4 * (r + 1); }));
  EXPECT_EQ(bytes_of([&](Communicator& comm) {
              Values<float> part = zeros(comm.rank() + 1), all = zeros(whole);
              comm.scatter(buffer_of(all), buffer_of(part), root);
            }),
            each([&](int r) { return r == root ? 4 * (whole - root - 1) : 0; }));
}

TEST_P(CommCountsTest, CollectivesOfParts) {
  const auto expected = each([&](int) { return 40 * (size() - 1); });
  EXPECT_EQ(bytes_of([&](Communicator& comm) {
              Values<float> part = zeros(10), all = zeros(10 * size());
              comm.reduce_scatter(buffer_of(all), buffer_of(part));
            }),
            expected);
  EXPECT_EQ(bytes_of([&](Communicator& comm) {
              Values<float> part = zeros(10), all = zeros(10 * size());
              comm.all_gather(buffer_of(part), buffer_of(all));
            }),
            expected);
}

TEST_P(CommCountsTest, MessagesCountWhereTheyAreSentAndBarriersNowhere) {
  const auto bytes = bytes_of(
      [&](Communicator& comm) {
        Values<float> message = zeros(10);
        comm.barrier();
        if (size() > 1 && comm.rank() == 0) comm.send(buffer_of(message), 1);
        if (size() > 1 && comm.rank() == 1) comm.receive(buffer_of(message), 0);
      },
      /*collectives=*/0);
  EXPECT_EQ(bytes, each([&](int r) { return size() > 1 && r == 0 ? 40 : 0; }));
}

DPTRAIN_EVERY_COMMUNICATOR(CommCountsTest, 1);

}  // namespace
}  // namespace dptrain
