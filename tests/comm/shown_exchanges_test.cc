// The spans of a communicator's calls on a rank's timeline.
#include <gtest/gtest.h>

#include <thread>

#include "comm/communicator_fixture.h"
#include "comm/exchange_span.h"
#include "device/timeline.h"

namespace dptrain {
namespace {

constexpr auto kLate = std::chrono::milliseconds(20);

/// Two ranks that record their exchanges.
class ShownExchangesTest : public ::testing::Test {
 protected:
  void start(const ThreadGroupOptions& options = {}) {
    ranks_ = make_thread_communicators(2, options);
    for (size_t r = 0; r < 2; ++r) {
      timelines_[r].keep(true);
      ranks_[r]->show_on(&timelines_[r]);
    }
  }
  void on_both(const std::function<void(Communicator&)>& work) {
    std::thread other([&] { work(*ranks_[1]); });
    work(*ranks_[0]);
    other.join();
  }

  std::vector<std::unique_ptr<Communicator>> ranks_;
  HostTimeline timelines_[2];
};

TEST_F(ShownExchangesTest, ACallLastsFromItsStartUntilItsResultIsThere) {
  start();
  std::vector<float> values[2] = {std::vector<float>(1000, 1), std::vector<float>(1000, 2)};
  Clock::time_point looked_for;
  on_both([&](Communicator& own) {
    const auto rank = static_cast<size_t>(own.rank());
    if (rank == 1) std::this_thread::sleep_for(kLate);
    const auto work = own.start_all_reduce(buffer_of(values[rank]));
    std::this_thread::sleep_for(kLate * (2 - own.rank()));
    if (rank == 0) looked_for = Clock::now();
    work->wait();
  });
  const auto first = timelines_[0].take(), second = timelines_[1].take();
  ASSERT_EQ(first.size(), 1U);
  ASSERT_EQ(second.size(), 1U);
  EXPECT_EQ(first[0].name, "all_reduce");
  EXPECT_EQ(first[0].operands, "f32[1000]");
  EXPECT_EQ(first[0].bytes, 4000);
  EXPECT_GE(first[0].alone, kLate / 2) << "rank 1 came later";
  EXPECT_LT(second[0].alone, first[0].alone);
  EXPECT_EQ(first[0].end, second[0].end);
  EXPECT_LT(first[0].end, looked_for) << "it was there before the rank looked for it";
  EXPECT_GE(first[0].end, first[0].begin + first[0].alone);
}

TEST_F(ShownExchangesTest, MessagesNameTheOtherEnd) {
  start();
  std::vector<int32_t> value = {7};
  ranks_[1]->show_on(&timelines_[1], "server 3");
  on_both(
      [&](Communicator& own) { own.rank() == 0 ? own.send(buffer_of(value), 1) : own.receive(buffer_of(value), 0); });
  EXPECT_EQ(timelines_[0].take().at(0).name, "send to rank 1");
  EXPECT_EQ(timelines_[1].take().at(0).name, "receive from server 3");
  ranks_[0]->show_on(nullptr);
  on_both([&](Communicator& own) { own.barrier(); });
  EXPECT_TRUE(timelines_[0].take().empty());
  EXPECT_EQ(timelines_[1].take().at(0).name, "barrier");
}

TEST_F(ShownExchangesTest, OverASlowLinkItEndsWhenTheLastByteArrives) {
  const std::vector<DeviceId> devices = {{DeviceKind::cpu, 0}, {DeviceKind::cpu, 1}};
  start({.links = std::make_shared<SimulatedLinks>(LinkSpec{.all = {.latency_s = 5e-3}, .pairs = {}}, devices)});
  std::vector<float> values[2] = {{1}, {2}};
  on_both([&](Communicator& own) {
    const auto work = own.start_all_reduce(buffer_of(values[own.rank()]));
    // Rank 1 waits for it long after it has arrived.
    std::this_thread::sleep_for(kLate * 2 * own.rank());
    work->wait();
  });
  const auto first = timelines_[0].take().at(0), second = timelines_[1].take().at(0);
  EXPECT_EQ(first.end, second.end);
  const Clock::time_point begun = std::max(first.begin, second.begin);
  EXPECT_GE(seconds_between(begun, first.end), 0.99e-2) << "two steps of a ring";
  EXPECT_LT(first.end, begun + kLate * 2);
}

}  // namespace
}  // namespace dptrain
