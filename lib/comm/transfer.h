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
  /// The text that the processes compare first. If another process runs a different operation, that is reported before
  /// its bytes are used. This process sends it to `header_to` and expects the same text from `header_from`. Empty:
  /// nothing is compared.
  std::string header = {};
  int sent_header_tag = 0;
  int received_header_tag = 0;
  std::vector<int> header_to = {};
  std::vector<int> header_from = {};
  std::vector<ExchangeMessage> messages;
  int priority = 0;  ///< see CommCall
  /// A later transfer with the same tag, between the same processes, may begin before this one is done. MPI gives a
  /// message to whichever receive of its tag was started first. So all parts of this transfer are expected at once, and
  /// both expected and sent before the later transfer's.
  bool shares_tag = false;
  double timeout_s = 300;

  // Called on the exchange's thread:
  /// Called with another process's header. Returns what is wrong if it differs.
  std::function<std::optional<JobFailure>(int process, const std::string& header)> check = {};
  std::function<void()> on_done;
  /// Returns the failure to report at the deadline if these processes are missing.
  std::function<JobFailure(const std::vector<int>& processes)> overdue;
};

/// Process and tag of transfers that share a tag and have parts left to send. Later transfers must wait for them.
using HeldTags = std::set<std::pair<int, int>>;

/// A transfer whose messages are on their way, in parts. The next parts to be received are always expected, whatever
/// this or another process has to send. Parts are sent as the window opens. So no process must receive before it can
/// send.
///
/// A process that hasn't begun the operation may need something else from this one first. So parts sent to it don't
/// count in the window, which all transfers share, until its header has come. It sends the header when it begins. Until
/// then only a few parts of each transfer go ahead, so nothing else is delayed. Hence processes need not agree on an
/// order of transfers, and little waits in the MPI of a slow process.
///
/// Used by one thread, that of the wire.
class TransferUnderWay {
 public:
  /// `is_done` calls `heard` with the process from which a part has come.
  TransferUnderWay(ProcessWire& wire, SendWindow& window, Transfer transfer, std::function<void(int)> heard);

  int priority() const { return transfer_.priority; }
  /// Whether everything is done. Received parts are only looked at once the headers agree. Throws the error that ends
  /// the job.
  bool is_done();
  /// Starts the parts that may go. Returns whether there were any. `held` comes from the transfers before this one.
  bool send_on(HeldTags& held);
  bool is_overdue() const { return Clock::now() >= deadline_; }
  JobFailure overdue() const;
  void done() const { transfer_.on_done(); }

 private:
  struct Sent {
    int process = 0;
    int64_t bytes = 0;
    bool is_ahead = false;  ///< it doesn't count in the window
    std::unique_ptr<WireMessage> message;
  };
  /// Another process that takes part.
  struct Peer {
    std::string header;                                 ///< its text about the operation
    std::unique_ptr<WireMessage> received_header;       ///< null if it sends none
    bool agrees = false;                                ///< its header has come and is equal
    int64_t ahead_bytes = 0;                            ///< on their way to it outside the window
    std::deque<ExchangeMessage> unexpected;             ///< parts to be received, in order
    std::deque<std::unique_ptr<WireMessage>> expected;  ///< receives that were started before them and aren't done
  };

  void send_headers();
  void expect_more(int process, Peer& peer);
  /// Whether all headers have come and agree. Throws if the first of them differs.
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
  std::vector<Sent> sent_;               ///< parts on their way
};

}  // namespace dptrain
