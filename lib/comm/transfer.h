#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "comm/exchange_plan.h"
#include "comm/job_failure.h"
#include "comm/process_wire.h"

namespace dptrain {

/// The messages of one stage of an operation.
struct Transfer {
  int tag = 0;                 ///< of all its messages
  std::string operation = {};  ///< "collective #12, all_reduce f32[1024]"
  /// What the processes compare first, so that an operation that isn't the same one in another process is told of
  /// before its bytes are used: what this process sends, and from where the same is expected. Empty: nothing.
  std::string header = {};
  int sent_header_tag = 0;
  int received_header_tag = 0;
  std::vector<int> header_to = {};
  std::vector<int> header_from = {};
  std::vector<ExchangeMessage> messages;
  int priority = 0;  ///< that CommCall has
  /// A later transfer of the same tag, from the same process, may begin before this one is done: all parts are expected
  /// at once, before its, as what comes of a tag goes to whoever expected it first.
  bool shares_tag = false;
  double timeout_s = 300;

  // Called on the exchange's thread:
  /// Another process's header is another one. Returns what is wrong.
  std::function<std::optional<JobFailure>(int process, const std::string& header)> check = {};
  std::function<void()> on_done;
  /// What to say at the deadline, where these processes are missing.
  std::function<JobFailure(const std::vector<int>& processes)> overdue;
};

/// What is on its way to each process. There is little of it at a time: the rest waits here, where what is more urgent
/// may still go before it, as nothing can that the wire has been given. Used by one thread, that of the wire.
class SendWindow {
 public:
  explicit SendWindow(int processes) : bytes_(static_cast<size_t>(processes)) {}

  bool is_open(int process) const { return bytes_[static_cast<size_t>(process)] < kBytes; }
  void add(int process, int64_t bytes) { bytes_[static_cast<size_t>(process)] += bytes; }
  void remove(int process, int64_t bytes) { bytes_[static_cast<size_t>(process)] -= bytes; }

 private:
  /// So that a wire of 100 Gbit/s doesn't run dry while this process does something else for 0.1 ms.
  static constexpr int64_t kBytes = 1 << 20;

  std::vector<int64_t> bytes_;  ///< by process
};

/// A transfer whose messages are on their way, in parts. The next ones that are received are expected whatever this
/// process has to send, and parts are sent as the window opens: so no process waits to send until it has received.
/// A part ends where MPI has taken it over, which over TCP it does by itself: what a process sends ahead of one that
/// hasn't begun the operation, a step's gradients at most, lies in that one's MPI. In shared memory it ends where it is
/// received, so operations that fill a window keep later ones to that process waiting: processes begin the
/// collectives that they have in common in one order. Used by one thread, that of the wire.
class TransferUnderWay {
 public:
  /// `heard`: called with the process that a part has come from, by `is_done`.
  TransferUnderWay(ProcessWire& wire, SendWindow& window, Transfer transfer, std::function<void(int)> heard);

  int priority() const { return transfer_.priority; }
  /// Whether everything is done. What was received is looked at only once the headers are seen to agree. Throws what
  /// ends the job.
  bool is_done();
  /// Starts what the window lets through. Returns whether there was any.
  bool send_on();
  bool is_overdue() const { return Clock::now() >= deadline_; }
  JobFailure overdue() const;
  void done() const { transfer_.on_done(); }

 private:
  struct Sent {
    int process = 0;
    int64_t bytes = 0;
    std::unique_ptr<WireMessage> message;
  };
  struct Received {
    int process = 0;
    std::unique_ptr<WireMessage> message;
  };

  void expect_more();

  ProcessWire& wire_;
  SendWindow& window_;
  Transfer transfer_;
  std::function<void(int)> heard_;
  Clock::time_point deadline_;
  std::vector<std::string> headers_;
  std::vector<std::unique_ptr<WireMessage>> received_headers_;
  std::vector<std::unique_ptr<WireMessage>> sent_headers_;
  std::deque<ExchangeMessage> unexpected_;  ///< parts to be received, the first of every process before second ones
  std::deque<Received> expected_;           ///< those before them that haven't come
  std::vector<ExchangeMessage> unsent_;     ///< in order
  std::vector<Sent> sent_;                  ///< those on their way
  size_t headers_seen_ = 0;
};

}  // namespace dptrain
