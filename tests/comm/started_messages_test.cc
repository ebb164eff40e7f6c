// Messages that are in flight while their ranks do something else.
#include <atomic>
#include <sstream>

#include "base/clock.h"
#include "comm/communicator_fixture.h"

namespace dptrain {
namespace {

/// Ranks are neighbors in pairs: 0 and 1, 2 and 3... With an odd number, the last rank has no neighbor.
class StartedMessagesTest : public CommunicatorTest {
 protected:
  const std::vector<int64_t> counts_ = {7, 200'000, 0, 1, 65'537};

  /// Message number `m` of rank `from`.
  Values<float> message(int from, size_t m) const {
    return values<float>(counts_[m], [=](int64_t i) { return 100 * from + 10 * static_cast<int64_t>(m) + i % 7; });
  }
  Values<float> unwritten(size_t m) const {
    return values<float>(counts_[m], [](int64_t) { return -1; });
  }
  /// Calls `function` with each rank that has a neighbor.
  void run_pairs(const std::function<void(Communicator&, int neighbor)>& function) const {
    run([&](Communicator& comm) {
      const int neighbor = comm.rank() ^ 1;
      if (neighbor < size()) function(comm, neighbor);
    });
  }
};

TEST_P(StartedMessagesTest, CrossWithoutWaitingForEachOther) {
  // Both ranks send everything before they receive anything. If a send waited for its receive, they would wait forever.
  run_pairs([&](Communicator& comm, int neighbor) {
    std::vector<Values<float>> sent, received;
    std::vector<std::unique_ptr<CommWork>> sending;
    for (size_t m = 0; m < counts_.size(); ++m) {
      sent.push_back(message(comm.rank(), m));
      received.push_back(unwritten(m));
    }
    for (auto& values : sent) sending.push_back(comm.start_send(buffer_of(values), neighbor));
    for (size_t m = 0; m < counts_.size(); ++m) {
      comm.receive(buffer_of(received[m]), neighbor);
      EXPECT_EQ(received[m], message(neighbor, m)) << "in the order of sending";
    }
    for (auto& work : sending) {
      work->wait();
      work->wait();  // waiting again does nothing
    }
  });
}

TEST_P(StartedMessagesTest, ReceivesMayBeStartedFirst) {
  run_pairs([&](Communicator& comm, int neighbor) {
    std::vector<Values<float>> received;
    std::vector<std::unique_ptr<CommWork>> receiving;
    for (size_t m = 0; m < counts_.size(); ++m) received.push_back(unwritten(m));
    for (auto& values : received) receiving.push_back(comm.start_receive(buffer_of(values), neighbor));
    std::vector<Values<float>> sent;
    std::vector<std::unique_ptr<CommWork>> sending;
    for (size_t m = 0; m < counts_.size(); ++m) sent.push_back(message(comm.rank(), m));
    for (auto& values : sent) sending.push_back(comm.start_send(buffer_of(values), neighbor));
    for (size_t m = 0; m < counts_.size(); ++m) {
      receiving[m]->wait();
      EXPECT_EQ(received[m], message(neighbor, m));
    }
    for (auto& work : sending) work->wait();
  });
}

TEST_P(StartedMessagesTest, OfManyPartsNoneIsTakenForTheNextMessage) {
  run([&](Communicator& comm) {
    if (comm.rank() > 1) return;
    // Messages of 20 MB, of a few bytes, and of the size of one part.
    const std::vector<int64_t> counts = {5'000'000, 3, 70'000};
    const auto of = [&](size_t m) {
      return values<float>(counts[m], [=](int64_t i) { return static_cast<int64_t>(m) + i % 1009; });
    };
    std::vector<Values<float>> moved;
    std::vector<std::unique_ptr<CommWork>> works;
    for (size_t m = 0; m < counts.size(); ++m)
      moved.push_back(comm.rank() == 0 ? of(m) : values<float>(counts[m], [](int64_t) { return -1; }));
    for (auto& one : moved)
      works.push_back(comm.rank() == 0 ? comm.start_send(buffer_of(one), 1) : comm.start_receive(buffer_of(one), 0));
    for (const auto& work : works) work->wait();
    for (size_t m = 0; m < counts.size(); ++m) EXPECT_TRUE(moved[m] == of(m)) << m;
  });
}

TEST_P(StartedMessagesTest, StartingWaitsForNobody) {
  std::atomic<int> started = 0;
  run_pairs([&](Communicator& comm, int neighbor) {
    Values<float> values = comm.rank() < neighbor ? message(comm.rank(), 1) : unwritten(1);
    if (comm.rank() < neighbor) {
      const auto work = comm.start_send(buffer_of(values), neighbor);
      ++started;
      work->wait();
      return;
    }
    // A receiver calls only after all senders have returned from starting.
    while (started < size() / 2) std::this_thread::yield();
    comm.receive(buffer_of(values), neighbor);
    EXPECT_EQ(values, message(neighbor, 1));
  });
}

TEST_P(StartedMessagesTest, EndedWithoutWaitTheyAreFinishedFirst) {
  run_pairs([&](Communicator& comm, int neighbor) {
    Values<float> values = comm.rank() < neighbor ? message(comm.rank(), 1) : unwritten(1);
    if (comm.rank() < neighbor) {
      comm.start_send(buffer_of(values), neighbor).reset();
    } else {
      comm.start_receive(buffer_of(values), neighbor).reset();
      EXPECT_EQ(values, message(neighbor, 1));
    }
  });
}

TEST_P(StartedMessagesTest, CollectivesMayComeBetween) {
  run([&](Communicator& comm) {
    const int neighbor = comm.rank() ^ 1;
    Values<float> sent = message(comm.rank(), 1), received = unwritten(1), sum = message(0, 0);
    std::unique_ptr<CommWork> sending;
    if (neighbor < size()) sending = comm.start_send(buffer_of(sent), neighbor);
    comm.all_reduce(buffer_of(sum));
    EXPECT_EQ(sum[3], 3.0f * static_cast<float>(size()));
    if (neighbor >= size()) return;
    comm.receive(buffer_of(received), neighbor);
    EXPECT_EQ(received, message(neighbor, 1));
    sending->wait();
  });
}

TEST_P(StartedMessagesTest, AMessageThatNobodyTakesIsNamedInTime) {
  auto ranks = make(kind().soon_s);
  const auto outcomes = outcomes_of(ranks, [&](Communicator& comm) {
    Values<float> values = message(0, 0);
    if (comm.rank() == 0) comm.start_send(buffer_of(values), 1)->wait();
  });
  std::ostringstream sentence;
  sentence << "rank 0 waited " << kind().soon_s << " s in send #1 f32[7] (28 bytes) for rank 1";
  EXPECT_EQ(outcomes[0], (Outcome{ExitCode::peer_lost, sentence.str()}));
}

TEST_P(StartedMessagesTest, ARankThatThrowsTakesItsMessageBack) {
  auto ranks = make();
  const Clock::time_point start = Clock::now();
  const auto outcomes = outcomes_of(ranks, [&](Communicator& comm) {
    try {
      Values<float> values = message(comm.rank(), 1);
      std::unique_ptr<CommWork> work;
      if (comm.rank() == 0) work = comm.start_send(buffer_of(values), 1);
      if (comm.rank() == 0) throw Error(ExitCode::diverged, "the loss is nan");
      comm.barrier();
    } catch (const Error& error) {
      comm.abort(error.what());
      throw;
    }
  });
  EXPECT_LT(seconds_since(start), 30) << "it must not sit out the deadline";
  EXPECT_EQ(outcomes[0], (Outcome{ExitCode::diverged, "the loss is nan"}));
  for (int r = 1; r < size(); ++r) EXPECT_EQ(outcomes[r], (Outcome{ExitCode::peer_lost, "the loss is nan"}));
}

DPTRAIN_EVERY_COMMUNICATOR(StartedMessagesTest, 2);

}  // namespace
}  // namespace dptrain
