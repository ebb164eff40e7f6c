#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "comm/failure_news.h"
#include "comm/job_failure.h"
#include "comm/process_activity.h"
#include "comm/process_wire.h"
#include "comm/transfer.h"

namespace dptrain {

/// An operation that other processes take part in.
struct BegunOperation {
  std::string name;  ///< as Transfer has it
  Clock::time_point begun_at;
};

/// Carries what a process's ranks exchange with those of other processes, on a thread of its own, so that ranks compute
/// meanwhile. One in a process; may be used by any thread.
///
/// After a failure nothing more is carried but the news of it. Each process, as soon as it knows of one, tells all
/// others of that one, once; who has heard of all others knows the failures of all, and takes that of the first process
/// that had one. So all end with the same sentence, also where several have failed at once. Who isn't heard of in time
/// is gone.
class ProcessExchange {
 public:
  /// `idle_pause_s`: how often news of other processes' failures are looked for while nothing is under way.
  explicit ProcessExchange(std::shared_ptr<ProcessWire> wire, double idle_pause_s = 0.005);
  ~ProcessExchange();
  ProcessExchange(const ProcessExchange&) = delete;
  ProcessExchange& operator=(const ProcessExchange&) = delete;

  int process() const { return process_; }
  int processes() const { return processes_; }
  /// What the threads are at whose operations it carries.
  ProcessActivity& activity() { return activity_; }

  /// The number of another group of ranks; all processes form the same ones in the same order.
  int next_group();
  /// Tags for the operations of a group are `first_tag(group)` + k, k below kGroupTags.
  int first_tag(int group) const;
  static constexpr int kGroupTags = 16384;

  /// From now on `member` is told where the job fails, or at once where it has.
  void join(std::weak_ptr<JobMember> member);
  /// Starts a transfer. Nothing where the job has failed.
  void start(Transfer transfer);
  /// What this process knows beside a failure that begins here is added by `completed`, on the thread that the failure
  /// begins on, before others are told of it. For before anything can fail.
  void complete_failures_by(std::function<JobFailure(JobFailure)> completed);
  /// The job fails, unless it has already. Doesn't block: members are told once all processes know of it. Nothing is
  /// expected of the processes in `gone`, which have died or don't answer.
  void fail(const JobFailure& failure, const std::set<int>& gone = {});
  /// Whether a failure is known, settled or not.
  bool has_failed() const { return has_failed_; }
  /// The failure, as far as it is known; must have failed. Doesn't block.
  JobFailure known_failure();
  /// Whether another process has told of a failure of this one.
  bool is_blamed();
  /// When a message of another process was last seen to have come whole; long ago where none has.
  Clock::time_point heard_at(int process) const {
    return Clock::time_point(Clock::duration(heard_at_[static_cast<size_t>(process)].load()));
  }
  /// How many messages could not be carried: each is a reason to doubt that all others are there.
  int lost_messages() const { return lost_messages_; }
  /// The operation that began last here; "" before the first.
  std::string latest_operation();
  /// The last thousand that began here, oldest first.
  std::vector<BegunOperation> operations();
  /// After a failure: blocks until this exchange looks at no transfer's bytes any more. The wire still may write to
  /// those of messages that were given up, so what they lie in has to outlive the process's end.
  void wait_until_still();
  /// After a failure: blocks until it is settled which one all processes end with and every other one has been told,
  /// for little more than a second. Returns it.
  JobFailure settled_failure();

 private:
  // On the thread:
  void run();
  /// Whether anything has moved.
  bool move_on();
  bool carry();
  /// Transfers rest from here on: somebody who watches the processes will say why, or else the message's own words do.
  void rest_after(const LostMessage& loss);
  bool take_new();
  void expect_news();
  bool hear_news();
  void tell_news();
  void settle();
  bool has_to_end() const;
  bool has_heard_of_all() const;
  std::string latest_operation_locked() const;

  const std::shared_ptr<ProcessWire> wire_;
  const int process_;
  const int processes_;
  const double idle_pause_s_;
  ProcessActivity activity_;

  std::mutex carrying_;  ///< held while transfers are moved on; taken before mutex_
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Transfer> new_;
  std::deque<BegunOperation> operations_;  ///< the latest, last
  std::vector<std::weak_ptr<JobMember>> members_;
  std::optional<KnownFailure> known_;  ///< the failure of the first process that is known to have one
  std::set<int> gone_;                 ///< processes that nothing is expected of
  std::optional<JobFailure> failure_;  ///< the settled one
  Clock::time_point settles_at_;
  bool told_ = false;
  bool stopping_ = false;
  Clock::time_point stop_at_;  ///< where others are still to be told of a failure
  int groups_ = 0;
  std::function<JobFailure(JobFailure)> completed_;
  std::atomic<bool> has_failed_ = false;  ///< a failure is known
  std::atomic<int> lost_messages_ = 0;
  std::vector<std::atomic<Clock::rep>> heard_at_;

  // Of the thread alone:
  SendWindow window_;
  std::vector<std::unique_ptr<TransferUnderWay>> under_way_;  ///< by priority, the highest first; then by age
  std::vector<std::unique_ptr<FailureNews>> expected_news_;
  std::vector<std::unique_ptr<FailureNews>> sent_news_;
  std::optional<JobFailure> loss_;    ///< of a message, in its words
  Clock::time_point unexplained_at_;  ///< when these words stand for the cause

  std::thread thread_;  ///< ends first
};

}  // namespace dptrain
