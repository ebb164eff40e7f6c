// A message that can't be delivered has a cause, which other processes may know better than the sender.
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <thread>
#include <utility>

#include "comm/process_exchange.h"
#include "support/memory_wires.h"

namespace dptrain {
namespace {

/// A wire that delivers nothing to one process except the report of a failure, which MPI may accept and never deliver.
class RefusingWire final : public ProcessWire {
 public:
  RefusingWire(std::shared_ptr<ProcessWire> wire, int refused) : wire_(std::move(wire)), refused_(refused) {}
  int process() const override { return wire_->process(); }
  int processes() const override { return wire_->processes(); }
  int largest_tag() const override { return wire_->largest_tag(); }
  std::unique_ptr<WireMessage> start_send(std::span<const std::byte> bytes, int to, int tag) override {
    constexpr int kNewsTag = 0;
    if (to == refused_ && tag != kNewsTag) throw LostMessage("it could not be carried");
    return wire_->start_send(bytes, to, tag);
  }
  std::unique_ptr<WireMessage> start_receive(std::span<std::byte> bytes, int from, int tag) override {
    return wire_->start_receive(bytes, from, tag);
  }

 private:
  std::shared_ptr<ProcessWire> wire_;
  int refused_;
};

/// Three processes: the last one has died, and the first one can't send to it.
class LostMessageTest : public ::testing::Test {
 protected:
  LostMessageTest() {
    const auto wires = MemoryWires::make(3);
    for (const auto& wire : {std::shared_ptr<ProcessWire>(std::make_shared<RefusingWire>(wires[0], 2)), wires[1]})
      exchanges_.push_back(std::make_unique<ProcessExchange>(wire, /*idle_pause_s=*/0.0005));
  }
  void send_to_the_dead() {
    Transfer transfer;
    transfer.tag = 20;
    transfer.operation = "a message";
    transfer.header = "same";
    transfer.sent_header_tag = 21;
    transfer.received_header_tag = 21;
    transfer.header_to = {2};
    transfer.on_done = [] {};
    first().start(std::move(transfer));
    while (first().lost_messages() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  ProcessExchange& first() { return *exchanges_[0]; }
  ProcessExchange& second() { return *exchanges_[1]; }

 private:
  std::vector<std::unique_ptr<ProcessExchange>> exchanges_;
};

TEST_F(LostMessageTest, HasTheCauseOfWhoHasSeenTheDeath) {
  send_to_the_dead();
  EXPECT_FALSE(first().has_failed());
  second().fail({.sentence = "process 2 has died", .process = 2}, {2});
  while (!first().has_failed()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(first().settled_failure().sentence, "process 2 has died");
  EXPECT_EQ(second().settled_failure().sentence, "process 2 has died");
}

TEST_F(LostMessageTest, SpeaksForItselfWhereNobodyKnowsMore) {
  send_to_the_dead();
  while (!first().has_failed()) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  const JobFailure failure = second().settled_failure();
  EXPECT_EQ(failure.sentence, "it could not be carried");
  EXPECT_EQ(failure.code, ExitCode::peer_lost);
}

}  // namespace
}  // namespace dptrain
