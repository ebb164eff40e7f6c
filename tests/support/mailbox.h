#pragma once

#include <cstddef>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "base/error.h"
#include "comm/process_wire.h"

namespace dptrain {

/// Messages that have arrived and are not yet taken. They are taken in the order in which their receives were started.
class Mailbox : public std::enable_shared_from_this<Mailbox> {
 public:
  using Box = std::tuple<int, int, int>;  // from, to, tag

  /// `fetch` is called before every look for a message; it delivers the messages that have arrived.
  explicit Mailbox(std::function<void()> fetch = {}) : fetch_(std::move(fetch)) {}

  void put(const Box& box, std::vector<std::byte> message) {
    const std::lock_guard lock(mutex_);
    messages_[box].push_back(std::move(message));
  }

  std::unique_ptr<WireMessage> receive(const Box& box, std::span<std::byte> bytes) {
    const std::lock_guard lock(mutex_);
    return std::make_unique<Received>(shared_from_this(), box, bytes, started_[box]++);
  }

 private:
  class Received final : public WireMessage {
   public:
    Received(std::shared_ptr<Mailbox> mail, const Box& box, std::span<std::byte> bytes, int64_t number)
        : mail_(std::move(mail)), box_(box), bytes_(bytes), number_(number) {}
    bool is_done() override {
      if (mail_->fetch_) mail_->fetch_();
      const std::lock_guard lock(mail_->mutex_);
      if (done_) return true;
      auto& waiting = mail_->messages_[box_];
      if (waiting.empty() || mail_->taken_[box_] != number_) return false;
      const std::vector<std::byte> message = std::move(waiting.front());
      waiting.pop_front();
      ++mail_->taken_[box_];
      if (message.size() > bytes_.size()) throw Error(ExitCode::ranks_disagree, "more bytes came than were expected");
      if (!message.empty()) std::memcpy(bytes_.data(), message.data(), message.size());
      received_ = static_cast<int64_t>(message.size());
      done_ = true;
      return true;
    }
    int64_t bytes() const override { return received_; }

   private:
    std::shared_ptr<Mailbox> mail_;
    Box box_;
    std::span<std::byte> bytes_;
    int64_t number_;
    int64_t received_ = 0;
    bool done_ = false;
  };

  const std::function<void()> fetch_;
  std::mutex mutex_;
  std::map<Box, std::deque<std::vector<std::byte>>> messages_;
  std::map<Box, int64_t> started_, taken_;  // number of receives so far
};

/// A message that was copied when it was sent.
class CopiedMessage final : public WireMessage {
 public:
  explicit CopiedMessage(int64_t bytes) : bytes_(bytes) {}
  bool is_done() override { return true; }
  int64_t bytes() const override { return bytes_; }

 private:
  int64_t bytes_;
};

}  // namespace dptrain
