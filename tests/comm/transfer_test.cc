// The order in which messages between processes are given to the wire.
#include "comm/transfer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <optional>

#include "support/expect_error.h"

namespace dptrain {
namespace {

constexpr int64_t kMiB = 1 << 20;

/// A wire that records what it is given to send, and carries it on request.
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

  /// Carries what was given since the last call, and returns its tags.
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
  TransferUnderWay begun(int tag, std::vector<ExchangeMessage> messages, const std::vector<int>& header_from = {}) {
    for (ExchangeMessage& message : messages) message.data = memory_.data();
    Transfer transfer{.tag = tag,
                      .header_from = header_from,
                      .messages = std::move(messages),
                      .check = [this](int, const std::string&) { return wrong_; },
                      .on_done = {},
                      .overdue = {}};
    return {wire_, window_, std::move(transfer), [](int) {}};
  }
  /// A transfer whose receiver hasn't reported that it has begun.
  TransferUnderWay sending_ahead(int tag, int64_t bytes, int to = 1) {
    return begun(tag, {{.sends = true, .process = to, .bytes = bytes}}, {to});
  }
  /// A transfer whose receiver has begun.
  TransferUnderWay sending(int tag, int64_t bytes, int to = 1) {
    TransferUnderWay transfer = sending_ahead(tag, bytes, to);
    wire_.received.back()->done = true;
    transfer.is_done();
    return transfer;
  }
  /// Whether the transfer sent anything, with no earlier transfer in its way.
  static bool send_on(TransferUnderWay& transfer) {
    HeldTags held;
    return transfer.send_on(held);
  }
  /// Bytes that were given and not carried yet.
  int64_t given_bytes() const {
    int64_t given = 0;
    for (size_t i = wire_.carried(); i < wire_.sent.size(); ++i) given += wire_.sent[i]->bytes;
    return given;
  }

  std::vector<std::byte> memory_ = std::vector<std::byte>(8 * kMiB);
  std::optional<JobFailure> wrong_;  ///< the failure that every received header reports
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
    EXPECT_TRUE(send_on(transfer));
    EXPECT_FALSE(send_on(transfer)) << "nobody has seen that they are gone";
    for (size_t i = wire_.carried(); i < wire_.sent.size(); ++i) {
      EXPECT_EQ(wire_.sent[i]->tag, 7);
      EXPECT_LT(wire_.sent[i]->bytes, 64 * 1024) << "what MPI sends at once";
    }
    EXPECT_LT(given_bytes(), kMiB + 64 * 1024);
    bytes += given_bytes();
    wire_.carried_tags();
  }
  EXPECT_EQ(bytes, kBytes);
}

TEST_F(TransferTest, WhatIsAskedFirstGoesBeforeWhatAnotherHasLeft) {
  auto first = sending(1, 4 * kMiB), urgent = sending(2, kMiB / 2);
  send_on(first);
  const std::vector<int> before = wire_.carried_tags();
  EXPECT_EQ(std::ranges::count(before, 1), static_cast<int64_t>(before.size()));
  first.is_done();
  HeldTags held;
  urgent.send_on(held);
  first.send_on(held);
  const std::vector<int> after = wire_.carried_tags();
  EXPECT_TRUE(std::ranges::is_sorted(after, std::greater())) << "all of the urgent one, then more of the other";
  EXPECT_EQ(std::ranges::count(after, 2), 9);
  EXPECT_GT(std::ranges::count(after, 1), 5);
}

TEST_F(TransferTest, EachProcessHasAWindowOfItsOwn) {
  auto first = sending(1, 4 * kMiB, 1), other = sending(2, 4 * kMiB, 2);
  EXPECT_TRUE(send_on(first));
  EXPECT_TRUE(send_on(other)) << "though the first one's is full";
  auto both = begun(3, {{.sends = true, .process = 1, .bytes = 8}, {.sends = true, .process = 2, .bytes = 8}}, {1, 2});
  wire_.received[2]->done = wire_.received[3]->done = true;
  EXPECT_FALSE(both.is_done());
  EXPECT_FALSE(send_on(both));
  for (const auto& part : wire_.sent) part->done = part->to == 2;
  other.is_done();
  EXPECT_TRUE(send_on(both));
  EXPECT_EQ(wire_.sent.back()->tag, 3);
  EXPECT_EQ(wire_.sent.back()->to, 2) << "the other one still waits";
}

/// The other process may need another message before it can begin this one: sending this one first would block both
/// forever.
TEST_F(TransferTest, WhatIsNotBegunThereKeepsNobodyWaiting) {
  auto early = sending_ahead(1, 4 * kMiB), wanted = sending(2, kMiB / 2);
  HeldTags held;
  EXPECT_TRUE(early.send_on(held)) << "a little goes ahead";
  EXPECT_LT(given_bytes(), 300 * 1024);
  EXPECT_FALSE(send_on(early));
  EXPECT_TRUE(wanted.send_on(held));
  const std::vector<int> given = wire_.carried_tags();
  EXPECT_EQ(std::ranges::count(given, 2), 9) << "all of it";
  EXPECT_TRUE(wanted.is_done());
  // None of the message was in the window; once the receiver has begun, it has the window to itself.
  wire_.received[0]->done = true;
  EXPECT_FALSE(early.is_done());
  EXPECT_TRUE(send_on(early));
  EXPECT_GE(given_bytes(), kMiB);
}

TEST_F(TransferTest, WhoNeverSaysThatItHasBegunGetsAllOfItByAndBy) {
  auto transfer = begun(1, {{.sends = true, .process = 1, .bytes = 3 * kMiB}});
  int64_t bytes = 0;
  for (int round = 1; !transfer.is_done(); ++round) {
    ASSERT_LE(round, 20);
    EXPECT_TRUE(send_on(transfer));
    EXPECT_LT(given_bytes(), 300 * 1024);
    bytes += given_bytes();
    wire_.carried_tags();
  }
  EXPECT_EQ(bytes, 3 * kMiB);
}

TEST_F(TransferTest, OfOneTagTheLaterOneGoesBehindTheEarlier) {
  auto first = sending_ahead(1, 4 * kMiB), second = sending(1, 8), other = sending(2, 8);
  HeldTags held;
  first.send_on(held);
  EXPECT_FALSE(second.send_on(held)) << "what comes of a tag is told apart by its order alone";
  EXPECT_TRUE(other.send_on(held));
}

TEST_F(TransferTest, ExpectsWhatComesWhateverIsToBeSent) {
  auto full = sending(1, 4 * kMiB);
  send_on(full);
  const size_t before = wire_.received.size();
  auto transfer =
      begun(2, {{.sends = false, .process = 1, .bytes = 8 * kMiB}, {.sends = false, .process = 2, .bytes = 5}});
  const std::vector<std::shared_ptr<WatchedWire::Sent>> parts(wire_.received.begin() + static_cast<long>(before),
                                                              wire_.received.end());
  ASSERT_GT(parts.size(), 2u) << "though nothing may be sent";
  EXPECT_EQ(std::ranges::count(parts, 2, &WatchedWire::Sent::to), 1) << "though there is much of the other one";
  int64_t bytes = 0;
  for (const auto& part : parts) {
    EXPECT_FALSE(transfer.is_done());
    part->done = true;
    bytes += part->bytes;
  }
  EXPECT_TRUE(transfer.is_done());
  EXPECT_EQ(bytes, 8 * kMiB + 5);
}

/// Process 1 may begin only after a message from process 2, and process 2 waits until all of this has arrived.
TEST_F(TransferTest, WhatOneSendsIsTakenInWhateverAnotherHasBegun) {
  memory_.resize(40 * kMiB);
  auto transfer =
      begun(2, {{.sends = false, .process = 1, .bytes = 40 * kMiB}, {.sends = false, .process = 2, .bytes = 40 * kMiB}},
            {1, 2});
  int64_t bytes = 0;
  for (size_t i = 0; i < wire_.received.size(); ++i) {
    const auto message = wire_.received[i];
    if (message->to == 1) continue;
    message->done = true;
    bytes += message->bytes;
    EXPECT_FALSE(transfer.is_done());
  }
  EXPECT_EQ(bytes, 40 * kMiB);
}

TEST_F(TransferTest, ExpectsTheMessagesOfAProcessInTheOrderInWhichItSendsThem) {
  auto receiving =
      begun(2, {{.sends = false, .process = 1, .bytes = kMiB}, {.sends = false, .process = 1, .bytes = 5}});
  auto sends = begun(2, {{.sends = true, .process = 1, .bytes = kMiB}, {.sends = true, .process = 1, .bytes = 5}});
  EXPECT_TRUE(send_on(sends));
  while (!sends.is_done()) {
    wire_.carried_tags();
    sends.is_done();
    send_on(sends);
  }
  ASSERT_EQ(wire_.sent.size(), wire_.received.size());
  for (size_t i = 0; i < wire_.sent.size(); ++i) EXPECT_EQ(wire_.sent[i]->bytes, wire_.received[i]->bytes) << i;
}

TEST_F(TransferTest, LooksAtNothingOfWhoDoesSomethingElse) {
  wrong_ = JobFailure{.code = ExitCode::ranks_disagree, .sentence = "rank 1 called barrier"};
  auto transfer = begun(2, {{.sends = false, .process = 1, .bytes = 8}}, {1});
  wire_.received[1]->done = true;
  EXPECT_FALSE(transfer.is_done()) << "its header hasn't come";
  wire_.received[0]->done = true;
  testing::expect_error(ExitCode::ranks_disagree, {"rank 1 called barrier"}, [&] { transfer.is_done(); });
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
  EXPECT_TRUE(send_on(transfer));
  ASSERT_EQ(wire_.sent.size(), 1u);
  EXPECT_EQ(wire_.sent[0]->bytes, 0);
}

}  // namespace
}  // namespace dptrain
