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

/// The other one of two processes that run the same tests of this program at once, each as one rank: NCCL has two ranks
/// on one GPU only in two processes. They meet in a file that both map, and whatever one of them asks for here, the
/// other one asks for in the same order.
class ProcessPair {
 public:
  /// The environment's variable that says "<file>:<process>".
  static constexpr const char* kVariable = "DPTRAIN_TEST_PAIR";

  /// Null where this program runs by itself.
  static ProcessPair* instance();
  /// The file that the two are to be given, of zeros.
  static void make_file(const std::filesystem::path& path);

  int process() const { return process_; }
  int other() const { return 1 - process_; }
  /// A wire between them that nothing else goes over.
  std::shared_ptr<ProcessWire> new_wire();
  /// What the other one says. Ends this process where it says nothing for a minute.
  std::string exchange(const std::string& own);
  /// False at first, the same for both, and each one's own.
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
  /// Bytes on, as far as there is room, and what has come into mailboxes.
  void move();

  const int process_;
  Shared* shared_;
  std::mutex moving_;  // held before
  std::mutex mutex_;
  std::deque<std::byte> out_;
  std::vector<std::byte> in_;
  std::map<int, std::shared_ptr<Mailbox>> mailboxes_;
  int wires_ = 0;  // 0 is that of `exchange`
  int signs_ = 0;
};

}  // namespace dptrain
