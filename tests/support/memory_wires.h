#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "comm/process_wire.h"
#include "support/mailbox.h"

namespace dptrain {

/// Wires between processes that threads of one process play. A message is copied when it is sent.
class MemoryWires {
 public:
  /// The wire ends of processes 0, 1...
  static std::vector<std::shared_ptr<ProcessWire>> make(int processes) {
    const auto mail = std::make_shared<Mailbox>();
    std::vector<std::shared_ptr<ProcessWire>> wires;
    for (int p = 0; p < processes; ++p) wires.push_back(std::make_shared<Wire>(mail, p, processes));
    return wires;
  }

 private:
  class Wire final : public ProcessWire {
   public:
    Wire(std::shared_ptr<Mailbox> mail, int process, int processes)
        : mail_(std::move(mail)), process_(process), processes_(processes) {}
    int process() const override { return process_; }
    int processes() const override { return processes_; }
    int largest_tag() const override { return 1 << 30; }
    std::unique_ptr<WireMessage> start_send(std::span<const std::byte> bytes, int to, int tag) override {
      mail_->put({process_, to, tag}, {bytes.begin(), bytes.end()});
      return std::make_unique<CopiedMessage>(static_cast<int64_t>(bytes.size()));
    }
    std::unique_ptr<WireMessage> start_receive(std::span<std::byte> bytes, int from, int tag) override {
      return mail_->receive({from, process_, tag}, bytes);
    }

   private:
    std::shared_ptr<Mailbox> mail_;
    int process_;
    int processes_;
  };
};

}  // namespace dptrain
