#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "comm/process_wire.h"
#include "support/mailbox.h"

namespace dptrain {

/// The connection to the other of two processes that run the same tests of this program at once, one rank each: only in
/// two processes can NCCL have two ranks on one GPU. The processes communicate through a file that both map. Whatever
/// one of them asks for here, the other must ask for in the same order.
class ProcessPair {
 public:
  /// The environment variable that holds "<file>:<process>".
  static constexpr const char* kVariable = "DPTRAIN_TEST_PAIR";

  /// Null where this program doesn't run as one of a pair.
  static ProcessPair* instance();
  /// Makes the file that the two processes share, filled with zeros.
  static void make_file(const std::filesystem::path& path);

  int process() const { return process_; }
  int other() const { return 1 - process_; }
  /// A new wire between the two processes that carries nothing else.
  std::shared_ptr<ProcessWire> new_wire();
  /// Sends a text and returns the other process's text. Ends this process if no text arrives for a minute.
  std::string exchange(const std::string& own);
  /// A new flag that both processes share, false at first.
  std::atomic<bool>& new_sign();

 private:
  struct Way;
  struct Shared;
  class Wire;
  struct Frame {
    int32_t wire, tag;
    int64_t bytes;
  };

  ProcessPair(const std::filesystem::path& path, int process);
  std::shared_ptr<Mailbox> mailbox(int wire);
  void send(int wire, int tag, std::span<const std::byte> bytes);
  /// Moves outgoing bytes into the file as far as there is room, and arrived messages into mailboxes.
  void move();

  const int process_;
  Shared* shared_;
  std::mutex moving_;  // locked before mutex_
  std::mutex mutex_;
  std::deque<std::byte> out_;
  std::vector<std::byte> in_;
  std::map<int, std::shared_ptr<Mailbox>> mailboxes_;
  int wires_ = 0;  // wire 0 is the one of `exchange`
  int signs_ = 0;
};

}  // namespace dptrain
