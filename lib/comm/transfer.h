#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "comm/exchange_plan.h"
#include "comm/job_failure.h"
#include "comm/process_wire.h"
#include "comm/send_window.h"

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
  /// A later transfer of the same tag, between the same processes, may begin before this one is done: all parts are
  /// expected at once, before its, as what comes of a tag goes to whoever expected it first, and sent before its.
  bool shares_tag = false;
  double timeout_s = 300;

  // Called on the exchange's thread:
  /// Another process's header is another one. Returns what is wrong.
  std::function<std::optional<JobFailure>(int process, const std::string& header)> check = {};
  std::function<void()> on_done;
  /// What to say at the deadline, where these processes are missing.
  std::function<JobFailure(const std::vector<int>& processes)> overdue;
};

/// Who has parts left to send of a tag that later transfers share: theirs come after them.
using HeldTags = std::set<std::pair<int, int>>;

/// A transfer whose messages are on their way, in parts. The next ones that are received are expected whatever this
/// process has to send, and whatever others have sent; parts are sent as the window opens. So no process waits to send
/// until it has received.
///
/// A process that hasn't begun the operation may do so only once it has something else from this one. What goes to it
/// is therefore no part of the window that all transfers share until its header has come, which it sends when it
/// begins: of each transfer a few parts go ahead, and keep nobody waiting. So processes need not agree on an order of
/// transfers either, and what waits in the MPI of a slow process is little.
///
/// Used by one thread, that of the wire.
class TransferUnderWay {
 public:
  /// `heard`: called with the process that a part has come from, by `is_done`.
  TransferUnderWay(ProcessWire& wire, SendWindow& window, Transfer transfer, std::function<void(int)> heard);

  int priority() const { return transfer_.priority; }
  /// Whether everything is done. What was received is looked at only once the headers are seen to agree. Throws what
  /// ends the job.
  bool is_done();
  /// Starts what may go. Returns whether there was any. `held`: of the transfers before this one.
  bool send_on(HeldTags& held);
  bool is_overdue() const { return Clock::now() >= deadline_; }
  JobFailure overdue() const;
  void done() const { transfer_.on_done(); }

 private:
  struct Sent {
    int process = 0;
    int64_t bytes = 0;
    bool is_ahead = false;  ///< no part of the window
    std::unique_ptr<WireMessage> message;
  };
  /// Another process that takes part.
  struct Peer {
    std::string header;                                 ///< what it says of the operation
    std::unique_ptr<WireMessage> received_header;       ///< null where it says nothing
    bool agrees = false;                                ///< its header has come, and is the same one
    int64_t ahead_bytes = 0;                            ///< on their way to it beside the window
    std::deque<ExchangeMessage> unexpected;             ///< parts to be received, in their order
    std::deque<std::unique_ptr<WireMessage>> expected;  ///< those before them that haven't come
  };

  void send_headers();
  void expect_more(int process, Peer& peer);
  /// Whether all headers have come. Throws where the first of them isn't the same one.
  bool see_headers();
  bool may_send(const ExchangeMessage& part);

  ProcessWire& wire_;
  SendWindow& window_;
  Transfer transfer_;
  std::function<void(int)> heard_;
  Clock::time_point deadline_;
  std::map<int, Peer> peers_;
  std::vector<std::unique_ptr<WireMessage>> sent_headers_;
  std::vector<ExchangeMessage> unsent_;  ///< parts, in order
  std::vector<Sent> sent_;               ///< those on their way
};

}  // namespace dptrain
