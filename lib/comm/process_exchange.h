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
  std::string name;  ///< see Transfer::operation
  Clock::time_point begun_at;
};

/// Carries what a process's ranks exchange with those of other processes. It runs on a thread of its own, so that ranks
/// compute meanwhile. Each process has one; any thread may use it.
///
/// After a failure it carries only the news of the failure. A process that knows of a failure tells all others once. A
/// process that has heard of all others knows everyone's failures, and takes the one of the lowest-numbered process. So
/// all end with the same sentence, even if several failed at once. A process that isn't heard of in time counts as
/// gone.
class ProcessExchange {
 public:
  /// `idle_pause_s` is the time between two looks for news of failures while nothing is under way.
  explicit ProcessExchange(std::shared_ptr<ProcessWire> wire, double idle_pause_s = 0.005);
  ~ProcessExchange();
  ProcessExchange(const ProcessExchange&) = delete;
  ProcessExchange& operator=(const ProcessExchange&) = delete;

  int process() const { return process_; }
  int processes() const { return processes_; }
  /// What the threads are doing whose operations it carries.
  ProcessActivity& activity() { return activity_; }

  /// Returns a number for another group of ranks. All processes form the same groups in the same order.
  int next_group();
  /// The first tag of a group. A group's operations use the tags first_tag(group) + k with k below kGroupTags.
  int first_tag(int group) const;
  static constexpr int kGroupTags = 16384;

  /// Registers `member`, which is told when the job fails, or at once if it has failed already.
  void join(std::weak_ptr<JobMember> member);
  /// Starts a transfer. Does nothing if the job has failed.
  void start(Transfer transfer);
  /// Sets a function that adds what this process knows to a failure that begins here. It is called on the thread that
  /// reports the failure, before others are told. Must be set before anything can fail.
  void complete_failures_by(std::function<JobFailure(JobFailure)> completed);
  /// Fails the job, unless it has failed already. Doesn't block: members are told once all processes know of the
  /// failure. Nothing is expected of the processes in `gone`, which have died or don't answer.
  void fail(const JobFailure& failure, const std::set<int>& gone = {});
  /// Whether a failure is known, settled or not.
  bool has_failed() const { return has_failed_; }
  /// The failure as far as known. The job must have failed. Doesn't block.
  JobFailure known_failure();
  /// Whether another process has reported a failure of this one.
  bool is_blamed();
  /// When a message of another process was last seen to arrive completely; long ago if none has.
  Clock::time_point heard_at(int process) const {
    return Clock::time_point(Clock::duration(heard_at_[static_cast<size_t>(process)].load()));
  }
  /// How many messages could not be carried. Each is a reason to doubt that all other processes are alive.
  int lost_messages() const { return lost_messages_; }
  /// The operation that began last here; "" before the first.
  std::string latest_operation();
  /// The last thousand operations that began here, oldest first.
  std::vector<BegunOperation> operations();
  /// Blocks, after a failure, until the exchange no longer uses any transfer's bytes. The wire may still write to the
  /// bytes of messages that were given up, so their memory has to live until the process ends.
  void wait_until_still();
  /// Blocks, after a failure, until all processes have settled on one failure and every other process has been told.
  /// That takes little more than a second. Returns the failure.
  JobFailure settled_failure();

 private:
  // On the exchange's thread:
  void run();
  /// Returns whether anything has moved.
  bool move_on();
  bool carry();
  /// Stops all transfers after a lost message. The job's watchdog should then name the cause; if it doesn't in time,
  /// the message's own words are used.
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

  std::mutex carrying_;  ///< held while transfers are carried; locked before mutex_
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Transfer> new_;
  std::deque<BegunOperation> operations_;  ///< the latest ones, oldest first
  std::vector<std::weak_ptr<JobMember>> members_;
  std::optional<KnownFailure> known_;  ///< the failure of the lowest-numbered process known to have one
  std::set<int> gone_;                 ///< processes of which nothing is expected
  std::optional<JobFailure> failure_;  ///< the settled failure
  Clock::time_point settles_at_;
  bool told_ = false;
  bool stopping_ = false;
  Clock::time_point stop_at_;  ///< deadline for telling the others of a failure when stopping
  int groups_ = 0;
  std::function<JobFailure(JobFailure)> completed_;
  std::atomic<bool> has_failed_ = false;  ///< whether a failure is known
  std::atomic<int> lost_messages_ = 0;
  std::vector<std::atomic<Clock::rep>> heard_at_;

  // Used by the exchange's thread only:
  SendWindow window_;
  std::vector<std::unique_ptr<TransferUnderWay>> under_way_;  ///< by priority, highest first; then oldest first
  std::vector<std::unique_ptr<FailureNews>> expected_news_;
  std::vector<std::unique_ptr<FailureNews>> sent_news_;
  std::optional<JobFailure> loss_;    ///< a lost message, in its own words
  Clock::time_point unexplained_at_;  ///< when `loss_` becomes the cause

  std::thread thread_;  ///< must end first
};

}  // namespace dptrain
