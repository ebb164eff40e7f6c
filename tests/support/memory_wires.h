#pragma once

#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <utility>
#include <vector>

#include "base/error.h"
#include "comm/process_wire.h"

namespace dptrain {

/// Wires between processes that are played by threads of one. A message is copied as it is sent.
class MemoryWires {
 public:
  /// The ends of processes 0, 1...
  static std::vector<std::shared_ptr<ProcessWire>> make(int processes) {
    const auto mail = std::make_shared<Mail>();
    std::vector<std::shared_ptr<ProcessWire>> wires;
    for (int p = 0; p < processes; ++p) wires.push_back(std::make_shared<Wire>(mail, p, processes));
    return wires;
  }

 private:
  using Box = std::tuple<int, int, int>;  // from, to, tag
  struct Mail {
    std::mutex mutex;
    std::map<Box, std::deque<std::vector<std::byte>>> messages;
    std::map<Box, int64_t> started;  // receives so far, which take the messages in their order
    std::map<Box, int64_t> taken;
  };

  class Sent final : public WireMessage {
   public:
    explicit Sent(int64_t bytes) : bytes_(bytes) {}
    bool is_done() override { return true; }
    int64_t bytes() const override { return bytes_; }

   private:
    int64_t bytes_;
  };

  class Received final : public WireMessage {
   public:
    Received(std::shared_ptr<Mail> mail, const Box& box, std::span<std::byte> bytes)
        : mail_(std::move(mail)), box_(box), bytes_(bytes) {
      const std::lock_guard lock(mail_->mutex);
      number_ = mail_->started[box_]++;
    }
    bool is_done() override {
      const std::lock_guard lock(mail_->mutex);
      if (done_) return true;
      auto& waiting = mail_->messages[box_];
      if (waiting.empty() || mail_->taken[box_] != number_) return false;
      const std::vector<std::byte> message = std::move(waiting.front());
      waiting.pop_front();
      ++mail_->taken[box_];
      if (message.size() > bytes_.size()) throw Error(ExitCode::ranks_disagree, "more bytes came than were expected");
      if (!message.empty()) std::memcpy(bytes_.data(), message.data(), message.size());
      received_ = static_cast<int64_t>(message.size());
      done_ = true;
      return true;
    }
    int64_t bytes() const override { return received_; }

   private:
    std::shared_ptr<Mail> mail_;
    Box box_;
    std::span<std::byte> bytes_;
    int64_t number_ = 0;
    int64_t received_ = 0;
    bool done_ = false;
  };

  class Wire final : public ProcessWire {
   public:
    Wire(std::shared_ptr<Mail> mail, int process, int processes)
        : mail_(std::move(mail)), process_(process), processes_(processes) {}
    int process() const override { return process_; }
    int processes() const override { return processes_; }
    int largest_tag() const override { return 1 << 30; }
    std::unique_ptr<WireMessage> start_send(std::span<const std::byte> bytes, int to, int tag) override {
      const std::lock_guard lock(mail_->mutex);
      mail_->messages[{process_, to, tag}].emplace_back(bytes.begin(), bytes.end());
      return std::make_unique<Sent>(static_cast<int64_t>(bytes.size()));
    }
    std::unique_ptr<WireMessage> start_receive(std::span<std::byte> bytes, int from, int tag) override {
      return std::make_unique<Received>(mail_, Box{from, process_, tag}, bytes);
    }

   private:
    std::shared_ptr<Mail> mail_;
    int process_;
    int processes_;
  };
};

}  // namespace dptrain
