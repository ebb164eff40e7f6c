#pragma once

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
  double timeout_s = 300;

  // Called on the exchange's thread:
  /// Another process's header is another one. Returns what is wrong.
  std::function<std::optional<JobFailure>(int process, const std::string& header)> check = {};
  std::function<void()> on_done;
  /// What to say at the deadline, where these processes are missing.
  std::function<JobFailure(const std::vector<int>& processes)> overdue;
};

/// A transfer whose messages have been started. Used by one thread, that of the wire.
class TransferUnderWay {
 public:
  /// `heard`: called with the process that a message has come from, by `is_done`.
  TransferUnderWay(ProcessWire& wire, Transfer transfer, std::function<void(int)> heard);

  /// Whether everything is done. What was received is looked at only once the headers are seen to agree. Throws what
  /// ends the job.
  bool is_done();
  bool is_overdue() const { return Clock::now() >= deadline_; }
  JobFailure overdue() const;
  void done() const { transfer_.on_done(); }

 private:
  Transfer transfer_;
  std::function<void(int)> heard_;
  Clock::time_point deadline_;
  std::vector<std::string> headers_;
  std::vector<std::unique_ptr<WireMessage>> received_headers_;
  std::vector<std::pair<const ExchangeMessage*, std::unique_ptr<WireMessage>>> received_;
  std::vector<std::unique_ptr<WireMessage>> sent_;
  size_t headers_seen_ = 0;
  size_t receives_seen_ = 0;
  size_t sends_seen_ = 0;
};

}  // namespace dptrain
