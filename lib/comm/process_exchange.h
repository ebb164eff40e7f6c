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
#include "base/error.h"
#include "comm/exchange_plan.h"
#include "comm/process_wire.h"

namespace dptrain {

/// A failure that ended a job, and in whose words.
struct JobFailure {
  ExitCode code = ExitCode::peer_lost;
  std::string sentence;
  int process = -1;            ///< that it is a failure of; -1: of the one that says so
  int64_t step = -1;           ///< that this process was in; -1: none is known
  std::string operation = {};  ///< that this process was in, as Transfer names it; "": none is known
  int64_t checkpoint = -1;     ///< step of the last whole checkpoint; -1: none is known
  int64_t steps_lost = -1;     ///< that were begun since; -1: no training has begun
  double detected_s = 0;       ///< from the last sign of life of that process
};

/// The same as an exception. Its sentence is said as it is, by all.
class JobError final : public Error {
 public:
  explicit JobError(const JobFailure& failure) : Error(failure.code, failure.sentence) {}
};

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

/// Who is to end where the job fails.
class JobMember {
 public:
  virtual ~JobMember() = default;
  virtual void on_job_failure(const JobFailure& failure) = 0;
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
  /// The operation that began last here; "" before the first.
  std::string latest_operation();
  /// After a failure: blocks until no transfer's bytes are looked at any more.
  void wait_until_still();
  /// After a failure: blocks until it is settled which one all processes end with and every other one has been told,
  /// for little more than a second. Returns it.
  JobFailure settled_failure();

 private:
  class UnderWay;
  struct News;
  struct Known {
    int process = 0;  ///< that has failed
    JobFailure failure;
  };

  // On the thread:
  void run();
  /// Whether anything has moved.
  bool move_on();
  bool carry();
  bool take_new();
  void expect_news();
  bool hear_news();
  void tell_news();
  void settle();
  bool has_to_end() const;
  bool has_heard_of_all() const;

  const std::shared_ptr<ProcessWire> wire_;
  const int process_;
  const int processes_;
  const double idle_pause_s_;

  std::mutex carrying_;  ///< held while transfers are moved on; taken before mutex_
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Transfer> new_;
  std::string latest_operation_;
  std::vector<std::weak_ptr<JobMember>> members_;
  std::optional<Known> known_;         ///< the failure of the first process that is known to have one
  std::set<int> gone_;                 ///< processes that nothing is expected of
  std::optional<JobFailure> failure_;  ///< the settled one
  Clock::time_point settles_at_;
  bool told_ = false;
  bool stopping_ = false;
  Clock::time_point stop_at_;  ///< where others are still to be told of a failure
  int groups_ = 0;
  std::function<JobFailure(JobFailure)> completed_;
  std::atomic<bool> has_failed_ = false;  ///< a failure is known

  // Of the thread alone:
  std::vector<std::unique_ptr<UnderWay>> under_way_;
  std::vector<std::unique_ptr<News>> expected_news_;
  std::vector<std::unique_ptr<News>> sent_news_;

  std::thread thread_;  ///< ends first
};

}  // namespace dptrain
