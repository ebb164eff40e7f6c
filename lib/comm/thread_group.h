#pragma once

#include <atomic>
#include <compare>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "comm/comm_call.h"
#include "comm/exchange_plan.h"
#include "comm/process_exchange.h"
#include "comm/thread_communicator.h"

namespace dptrain {

/// Which operation a call is an end of: collective number n of the group, or message number n from a rank to another.
/// Numbers start at 1.
struct OperationKey {
  int64_t number = 0;
  int from = -1;  ///< -1: a collective
  int to = -1;

  bool is_message() const { return from >= 0; }
  auto operator<=>(const OperationKey&) const = default;
};

class GroupExchange;

/// When an operation was where.
struct OperationTimes {
  Clock::time_point ready = {};  ///< all of this process's ranks had come
  Clock::time_point done = {};   ///< buffers could be used again
};

/// Where the ranks of one process meet. An operation goes through three states:
///
///   gathering  ranks publish their arguments and go on; nobody touches a buffer
///   ready      all have arrived and agree: the operation is cut into pieces, and whoever is inside a call takes one
///              after the other. The last to arrive always does, so a ready operation needs nobody else to end
///   done       every piece is finished: the ranks may use their buffers again
///
/// The order of sums is fixed within an element, so who takes which piece changes no bit. There are no threads beside
/// the ranks' own, and that of the exchange where other processes have ranks of the group.
///
/// Waiting for ranks to arrive has the deadline. Waiting for pieces in work has none: they need no other rank, and are
/// short.
///
/// After a failure (abort, deadline, disagreement) no operation becomes ready and no piece is taken any more. A rank
/// leaves an operation with the failure only when nobody is at work on it, so its buffers are not touched after its
/// call has thrown.
///
/// Some ranks may be in other processes. An operation whose own ranks have all arrived then goes on in stages, sums in
/// this process and messages to the others in turn; the thread of the exchange takes pieces too.
class ThreadGroup final : public JobMember, public std::enable_shared_from_this<ThreadGroup> {
 public:
  class Operation;

  ThreadGroup(int size, const ThreadGroupOptions& options);
  /// Of this process's ranks of the world.
  ThreadGroup(const RanksOfProcesses& world, double timeout_s, bool meet_only);
  ~ThreadGroup() override;
  /// From now on the job's failures are the group's.
  void join_job();

  /// Publishes `rank`'s call, takes pieces of whatever is ready, and returns. Never waits for a rank. Throws the
  /// group's failure, 76 where the call disagrees with another rank's; the call isn't published then.
  std::shared_ptr<Operation> start(const OperationKey& key, int rank, const CommCall& call);
  /// Blocks until the operation is done, at work on pieces meanwhile, and says when that was. Throws the group's
  /// failure; 75 where ranks are still missing at the deadline.
  OperationTimes finish(Operation& operation, int rank);
  /// Takes `rank`'s call back, so that its buffer may end: the operation can't become ready any more. False, and
  /// nothing changed, where it is ready already or the group has failed; `finish` then doesn't wait for any rank.
  bool withdraw(Operation& operation, int rank);

  /// Every call, waiting now or made later, throws Error(code, sentence); the first failure stays. Never blocks for
  /// long: it doesn't wait for pieces.
  void fail(ExitCode code, const std::string& sentence);

  void on_job_failure(const JobFailure& failure) override;

  /// Over all processes.
  int size() const;
  bool spans_processes() const { return exchange_ != nullptr; }
  /// Of this process.
  int own_ranks() const { return ranks_.size(); }

 private:
  using Lock = std::unique_lock<std::mutex>;

  void fail_locked(const JobFailure& failure);
  /// Fails, tells the other processes, and throws. Unlocks.
  [[noreturn]] void fail_and_throw(Lock& lock, ExitCode code, const std::string& sentence);
  [[noreturn]] void throw_failure() const;
  void make_ready(Lock& lock, const std::shared_ptr<Operation>& operation);
  ExchangePlan plan_of(const Operation& operation) const;
  // A stage: its pieces, once these are finished its messages, then the next one or the operation's end.
  void begin_stage(const std::shared_ptr<Operation>& operation);
  void go_on(const std::shared_ptr<Operation>& operation);
  void end_stage(const std::shared_ptr<Operation>& operation);
  /// Whether other processes take part in it.
  bool is_exchanged(const Operation& operation) const;
  void on_messages_done(const std::shared_ptr<Operation>& operation);
  /// The ranks of an operation among those of the links.
  std::vector<int> link_ranks_of(const Operation& operation) const;
  void work(Lock& lock);
  void spin(const Operation& operation) const;

  const RankRun ranks_;                            ///< of this process
  const std::unique_ptr<GroupExchange> exchange_;  ///< with other processes, where they have ranks of the group
  const double timeout_s_;
  const bool meet_only_ = false;
  const std::shared_ptr<SimulatedLinks> links_;
  std::vector<int> link_ranks_;

  // One mutex for all that follows: it is held for a few assignments, never during a piece.
  std::mutex mutex_;
  // Signalled when an operation becomes ready or done, on failure, and when the last worker leaves a failed operation.
  std::condition_variable changed_;
  std::optional<JobFailure> failure_;
  std::map<OperationKey, std::shared_ptr<Operation>> gathering_;
  std::vector<std::shared_ptr<Operation>> ready_;  // those with pieces that nobody has taken yet, oldest first
  // What a spinning rank looks at without the mutex.
  std::atomic<bool> failed_ = false;
  std::atomic<bool> has_pieces_ = false;
};

}  // namespace dptrain
