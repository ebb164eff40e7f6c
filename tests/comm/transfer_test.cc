// In what order messages between processes are given to the wire.
#include "comm/transfer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

namespace dptrain {
namespace {

constexpr int64_t kMiB = 1 << 20;

/// A wire that says what it has been given to send, and carries it when told to.
class WatchedWire final : public ProcessWire {
 public:
  struct Sent {
    int to = 0;
    int tag = 0;
    int64_t bytes = 0;
    bool done = false;
  };

  int process() const override { return 0; }
  int processes() const override { return 3; }
  int largest_tag() const override { return 1 << 20; }
  std::unique_ptr<WireMessage> start_send(std::span<const std::byte> bytes, int to, int tag) override {
    sent.push_back(std::make_shared<Sent>(Sent{.to = to, .tag = tag, .bytes = static_cast<int64_t>(bytes.size())}));
    return std::make_unique<Message>(sent.back());
  }
  std::unique_ptr<WireMessage> start_receive(std::span<std::byte> bytes, int from, int tag) override {
    received.push_back(
        std::make_shared<Sent>(Sent{.to = from, .tag = tag, .bytes = static_cast<int64_t>(bytes.size())}));
    return std::make_unique<Message>(received.back());
  }

  /// Tags of what was given since the last call, which is carried now.
  std::vector<int> carried_tags() {
    std::vector<int> tags;
    for (; carried_ < sent.size(); ++carried_) {
      tags.push_back(sent[carried_]->tag);
      sent[carried_]->done = true;
    }
    return tags;
  }

  size_t carried() const { return carried_; }

  std::vector<std::shared_ptr<Sent>> sent, received;

 private:
  class Message final : public WireMessage {
   public:
    explicit Message(std::shared_ptr<Sent> sent) : sent_(std::move(sent)) {}
    bool is_done() override { return sent_->done; }
    int64_t bytes() const override { return sent_->bytes; }

   private:
    std::shared_ptr<Sent> sent_;
  };

  size_t carried_ = 0;
};

class TransferTest : public ::testing::Test {
 protected:
  TransferUnderWay begun(int tag, std::vector<ExchangeMessage> messages) {
    for (ExchangeMessage& message : messages) message.data = memory_.data();
    Transfer transfer{.tag = tag, .messages = std::move(messages), .on_done = {}, .overdue = {}};
    return {wire_, window_, std::move(transfer), [](int) {}};
  }
  TransferUnderWay sending(int tag, int64_t bytes, int to = 1) {
    return begun(tag, {{.sends = true, .process = to, .bytes = bytes}});
  }

  std::vector<std::byte> memory_ = std::vector<std::byte>(8 * kMiB);
  WatchedWire wire_;
  SendWindow window_{3};
};

TEST_F(TransferTest, GivesTheWireLittleAtATime) {
  constexpr int64_t kBytes = 5 * kMiB + 3;
  auto transfer = sending(7, kBytes);
  EXPECT_TRUE(wire_.sent.empty());
  int64_t bytes = 0;
  for (int round = 1; !transfer.is_done(); ++round) {
    SCOPED_TRACE(round);
    ASSERT_LE(round, 6);
    EXPECT_TRUE(transfer.send_on());
    EXPECT_FALSE(transfer.send_on()) << "nobody has seen that they are gone";
    int64_t given = 0;
    for (size_t i = wire_.carried(); i < wire_.sent.size(); ++i) {
      EXPECT_EQ(wire_.sent[i]->tag, 7);
      EXPECT_LT(wire_.sent[i]->bytes, 64 * 1024) << "what MPI sends at once";
      given += wire_.sent[i]->bytes;
    }
    EXPECT_LT(given, kMiB + 64 * 1024);
    bytes += given;
    wire_.carried_tags();
  }
  EXPECT_EQ(bytes, kBytes);
}

TEST_F(TransferTest, WhatIsAskedFirstGoesBeforeWhatAnotherHasLeft) {
  auto first = sending(1, 4 * kMiB), urgent = sending(2, kMiB / 2);
  first.send_on();
  const std::vector<int> before = wire_.carried_tags();
  EXPECT_EQ(std::ranges::count(before, 1), static_cast<int64_t>(before.size()));
  first.is_done();
  urgent.send_on();
  first.send_on();
  const std::vector<int> after = wire_.carried_tags();
  EXPECT_TRUE(std::ranges::is_sorted(after, std::greater())) << "all of the urgent one, then more of the other";
  EXPECT_EQ(std::ranges::count(after, 2), 9);
  EXPECT_GT(std::ranges::count(after, 1), 5);
}

TEST_F(TransferTest, EachProcessHasAWindowOfItsOwn) {
  auto first = sending(1, 4 * kMiB, 1), other = sending(2, 4 * kMiB, 2);
  EXPECT_TRUE(first.send_on());
  EXPECT_TRUE(other.send_on()) << "though the first one's is full";
  auto both = begun(3, {{.sends = true, .process = 1, .bytes = 8}, {.sends = true, .process = 2, .bytes = 8}});
  EXPECT_FALSE(both.send_on());
  for (const auto& part : wire_.sent) part->done = part->to == 2;
  other.is_done();
  EXPECT_TRUE(both.send_on());
  EXPECT_EQ(wire_.sent.back()->tag, 3);
  EXPECT_EQ(wire_.sent.back()->to, 2) << "the other one still waits";
}

TEST_F(TransferTest, ExpectsWhatComesWhateverIsToBeSent) {
  auto full = sending(1, 4 * kMiB);
  full.send_on();
  auto transfer =
      begun(2, {{.sends = false, .process = 1, .bytes = 8 * kMiB}, {.sends = false, .process = 2, .bytes = 5}});
  ASSERT_GT(wire_.received.size(), 2u) << "though nothing may be sent";
  EXPECT_EQ(wire_.received[1]->to, 2) << "the first part of each";
  int64_t bytes = 0;
  for (size_t i = 0; i < wire_.received.size(); ++i) {
    EXPECT_FALSE(transfer.is_done());
    wire_.received[i]->done = true;
    bytes += wire_.received[i]->bytes;
  }
  EXPECT_TRUE(transfer.is_done());
  EXPECT_EQ(bytes, 8 * kMiB + 5);
}

TEST_F(TransferTest, ExpectsTheMessagesOfAProcessInTheOrderInWhichItSendsThem) {
  auto receiving =
      begun(2, {{.sends = false, .process = 1, .bytes = kMiB}, {.sends = false, .process = 1, .bytes = 5}});
  auto sends = begun(2, {{.sends = true, .process = 1, .bytes = kMiB}, {.sends = true, .process = 1, .bytes = 5}});
  EXPECT_TRUE(sends.send_on());
  while (!sends.is_done()) {
    wire_.carried_tags();
    sends.send_on();
  }
  ASSERT_EQ(wire_.sent.size(), wire_.received.size());
  for (size_t i = 0; i < wire_.sent.size(); ++i) EXPECT_EQ(wire_.sent[i]->bytes, wire_.received[i]->bytes) << i;
}

TEST_F(TransferTest, OfManyPartsExpectsTheNextOnesAlone) {
  memory_.resize(40 * kMiB);
  auto transfer = begun(2, {{.sends = false, .process = 1, .bytes = 40 * kMiB}});
  const size_t at_first = wire_.received.size();
  EXPECT_LT(at_first, 300u);
  for (size_t i = 0; i < at_first; ++i) wire_.received[i]->done = true;
  EXPECT_FALSE(transfer.is_done());
  EXPECT_GT(wire_.received.size(), at_first);
  for (size_t i = 0; !transfer.is_done(); ++i) {
    ASSERT_LT(i, wire_.received.size());
    wire_.received[i]->done = true;
  }
}

TEST_F(TransferTest, WhatSharesItsTagIsExpectedWholeBeforeTheNextOfThatTag) {
  memory_.resize(40 * kMiB);
  const auto receiving = [&](int64_t bytes) {
    return Transfer{.tag = 2,
                    .messages = {{.sends = false, .process = 1, .data = memory_.data(), .bytes = bytes}},
                    .shares_tag = true,
                    .on_done = {},
                    .overdue = {}};
  };
  const TransferUnderWay first(wire_, window_, receiving(40 * kMiB), [](int) {});
  const size_t parts = wire_.received.size();
  const TransferUnderWay second(wire_, window_, receiving(8), [](int) {});
  int64_t bytes = 0;
  for (size_t i = 0; i < parts; ++i) bytes += wire_.received[i]->bytes;
  EXPECT_EQ(bytes, 40 * kMiB) << "what is sent after it would come in place of the rest";
  ASSERT_EQ(wire_.received.size(), parts + 1);
  EXPECT_EQ(wire_.received.back()->bytes, 8);
}

TEST_F(TransferTest, OfNoBytesIsAMessageAllTheSame) {
  auto transfer = sending(1, 0);
  EXPECT_TRUE(transfer.send_on());
  ASSERT_EQ(wire_.sent.size(), 1u);
  EXPECT_EQ(wire_.sent[0]->bytes, 0);
}

}  // namespace
}  // namespace dptrain
