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

/// Names the operation that a call is an end of: collective number n of the group, or message number n from one rank to
/// another. Numbers start at 1.
struct OperationKey {
  int64_t number = 0;
  int from = -1;  ///< -1: a collective
  int to = -1;

  bool is_message() const { return from >= 0; }
  auto operator<=>(const OperationKey&) const = default;
};

class GroupExchange;

/// When an operation reached its states.
struct OperationTimes {
  Clock::time_point ready = {};  ///< all of this process's ranks had come
  Clock::time_point done = {};   ///< buffers could be used again
};

/// Where the ranks of one process meet. An operation goes through three states:
///
///   gathering  ranks publish their arguments and go on; nobody touches a buffer
///   ready      all have arrived and agree. The operation is cut into pieces, and every rank inside a call takes one
///              after the other. The last rank to arrive always does, so a ready operation needs nobody else to end
///   done       every piece is finished: the ranks may use their buffers again
///
/// The order of sums is fixed within an element, so no bit depends on who takes which piece. There are no threads
/// except the ranks' own, and that of the exchange if other processes have ranks of the group.
///
/// Waiting for ranks to arrive has the deadline. Waiting for pieces under way has none: they need no other rank, and
/// are short.
///
/// After a failure (abort, deadline, disagreement) no operation becomes ready and no piece is taken any more. A rank
/// leaves an operation with the failure only when nobody is at work on it. So its buffers are not touched after its
/// call has thrown.
///
/// Some ranks may be in other processes. After all of this process's ranks have arrived, such an operation goes on in
/// stages: sums in this process and messages to the others in turn. The exchange's thread takes pieces too.
class ThreadGroup final : public JobMember, public std::enable_shared_from_this<ThreadGroup> {
 public:
  class Operation;

  ThreadGroup(int size, const ThreadGroupOptions& options);
  /// A group of this process's ranks of the world.
  ThreadGroup(const RanksOfProcesses& world, double timeout_s, bool meet_only);
  ~ThreadGroup() override;
  /// Makes the job's failures the group's from now on.
  void join_job();

  /// Publishes `rank`'s call, takes pieces of whatever is ready, and returns. Never waits for a rank. Throws the
  /// group's failure. Throws an error with exit code 76 if the call disagrees with another rank's; the call isn't
  /// published then.
  std::shared_ptr<Operation> start(const OperationKey& key, int rank, const CommCall& call);
  /// Blocks until the operation is done, running pieces meanwhile. Returns when it was ready and done. Throws the
  /// group's failure, or an error with exit code 75 if ranks are still missing at the deadline.
  OperationTimes finish(Operation& operation, int rank);
  /// Withdraws `rank`'s call so that its buffer may be freed; the operation can't become ready any more. A message that
  /// is ready can be withdrawn too while the exchange carries its copy. Otherwise, or if the group has failed, returns
  /// false and changes nothing; `finish` then doesn't wait for any rank.
  bool withdraw(Operation& operation, int rank);

  /// Makes every call, waiting now or made later, throw Error(code, sentence). The first failure stays. Never blocks
  /// for long, since it doesn't wait for pieces.
  void fail(ExitCode code, const std::string& sentence);

  void on_job_failure(const JobFailure& failure) override;

  /// The ranks of all processes.
  int size() const;
  bool spans_processes() const { return exchange_ != nullptr; }
  /// The ranks of this process.
  int own_ranks() const { return ranks_.size(); }

 private:
  using Lock = std::unique_lock<std::mutex>;

  void fail_locked(const JobFailure& failure);
  /// Fails the group, tells the other processes, and throws. Unlocks `lock`.
  [[noreturn]] void fail_and_throw(Lock& lock, ExitCode code, const std::string& sentence);
  [[noreturn]] void throw_failure() const;
  void make_ready(Lock& lock, const std::shared_ptr<Operation>& operation);
  ExchangePlan plan_of(const Operation& operation) const;
  // A stage runs its pieces, then its messages. Then the next stage begins or the operation ends.
  void begin_stage(const std::shared_ptr<Operation>& operation);
  void go_on(const std::shared_ptr<Operation>& operation);
  void end_stage(const std::shared_ptr<Operation>& operation);
  /// Whether other processes take part in the operation.
  bool is_exchanged(const Operation& operation) const;
  void on_messages_done(const std::shared_ptr<Operation>& operation);
  /// The ranks of an operation, numbered as in `links_`.
  std::vector<int> link_ranks_of(const Operation& operation) const;
  void work(Lock& lock);
  void spin(const Operation& operation) const;

  const RankRun ranks_;                            ///< of this process
  const std::unique_ptr<GroupExchange> exchange_;  ///< set if other processes have ranks of the group
  const double timeout_s_;
  const bool meet_only_ = false;
  const std::shared_ptr<SimulatedLinks> links_;
  std::vector<int> link_ranks_;

  // One mutex guards all members below. It is held for a few assignments, never during a piece.
  std::mutex mutex_;
  // Signalled when an operation becomes ready or done, on failure, and when the last thread leaves a failed operation.
  std::condition_variable changed_;
  std::optional<JobFailure> failure_;
  std::map<OperationKey, std::shared_ptr<Operation>> gathering_;
  std::vector<std::shared_ptr<Operation>> ready_;  // operations with pieces that nobody has taken yet, oldest first
  // A spinning rank reads these without the mutex.
  std::atomic<bool> failed_ = false;
  std::atomic<bool> has_pieces_ = false;
};

}  // namespace dptrain
