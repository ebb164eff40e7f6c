#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "comm/communicators.h"
#include "comm/meta_communicator.h"
#include "comm/simulated_links.h"
#include "device/device.h"
#include "parallel/rank_timelines.h"
#include "parallel/worker_threads.h"

namespace dptrain::parallel {

/// The ranks of this process, each with a device, a communicator and a thread. If a rank fails, all others stop with
/// its error. Ranks are numbered from 0 in each process: rank r is rank first_rank() + r of the world.
class RankTeam {
 public:
  struct Options {
    std::vector<DeviceId> devices;
    std::vector<int> threads;        ///< CPU threads by rank
    int64_t memory_limit_bytes = 0;  ///< of each device; 0: no limit
    double timeout_s = 300;          ///< limit of every wait for another rank
    bool deterministic = false;      ///< for GPUs; see DeviceOptions
    bool tf32 = false;
    bool records = true;                         ///< for GPUs; see DeviceOptions
    std::optional<LinkSpec> links = {};          ///< simulated links whose speed limits communication
    std::optional<RanksOfProcesses> world = {};  ///< ranks of all processes, if there are several
    std::vector<RankPair> messages = {};         ///< pairs of ranks of the world, as in CommunicatorOptions
    /// Set for ranks that log their work and calls instead of doing them. They are the first ranks of this world.
    std::optional<LoggedWorld> logged = {};
    bool times_operators = false;  ///< see DeviceOptions
    bool has_timelines = false;    ///< steps can be shown; see `show_steps`
    /// Called before the process ends because one rank has failed and another rank's thread hangs; see `wait`.
    std::function<void(const Error&)> on_hung = {};
  };
  /// Opens the devices and starts the threads. Throws an error with exit code 71 if a device or a thread can't be
  /// started.
  explicit RankTeam(const Options& options);

  int size() const { return static_cast<int>(devices_.size()); }
  int world_size() const { return communicators_.front()->size(); }
  int first_rank() const { return communicators_.front()->rank(); }
  /// Whether this is rank 0 of the world.
  bool is_first(int rank) const { return first_rank() + rank == 0; }
  bool spans_processes() const { return world_size() > size(); }
  /// Whether the ranks only log their work. The ranks of other processes don't exist then.
  bool is_logged() const { return logged_.has_value(); }
  /// The log of a rank's calls; null unless `is_logged`.
  CallLog* logged_calls(int rank) { return logged_ ? &logged_->calls->at(static_cast<size_t>(rank)) : nullptr; }
  Device& device(int rank) { return *devices_[static_cast<size_t>(rank)]; }
  const Device& device(int rank) const { return *devices_[static_cast<size_t>(rank)]; }
  /// The kind of device that a rank of the world has.
  DeviceKind kind(int world_rank) const { return kinds_[static_cast<size_t>(world_rank)]; }
  Communicator& communicator(int rank) { return *communicators_[static_cast<size_t>(rank)]; }
  /// The same ranks over host memory, whatever their devices.
  Communicator& host_communicator(int rank) { return *host_communicators_[static_cast<size_t>(rank)]; }

  /// Returns communicators for these ranks of this process alone; element i belongs to ranks[i]. They live as long as
  /// the team and are aborted if a rank fails. Must not be called while `run` runs.
  std::vector<Communicator*> form_group(const std::vector<int>& ranks);
  /// Returns communicators for ranks of the world, given in ascending order; element i is null if another process has
  /// that rank. All processes must form the same groups in the same order, even groups in which they have no rank.
  std::vector<Communicator*> form_world_group(const std::vector<int>& world_ranks);
  /// What a rank has sent, including in its groups.
  CommCounts counts(int rank) const;

  /// Shows these steps from now on, if the team has timelines. No step may be under way.
  void show_steps(const ShownSteps& steps) { shown_ = steps; }
  /// The timeline of a rank's exchanges through this process's memory; null if there are no timelines.
  Timeline* exchange_timeline(int rank) {
    return timelines_.empty() ? nullptr : &timelines_[static_cast<size_t>(rank)]->exchanges();
  }
  /// Returns each rank's timeline of shown steps since the last call. All given work must be done.
  std::vector<std::vector<TimelineRow>> take_timelines();

  using Work = std::function<void(int rank)>;
  /// Gives work to every rank's thread, which calls work(rank) once it has done all earlier work. No rank waits for the
  /// others to begin. Returns the number of this work, from 1.
  int64_t give(const std::string& what, Work work);
  /// Gives the work of a training step.
  int64_t give_step(int64_t step, Work work);
  /// Blocks until all ranks have done all work up to `number`. Computing may take any time; a rank that waits for
  /// another has the communicator's deadline.
  ///
  /// If a rank throws, no given work is begun any more. Then this call, and every later one, throws the root cause: the
  /// first failure, as an Error that begins with its rank, its device and `what` ("step 12").
  ///
  /// After a failure, a rank may never end. If one hasn't ended within the communicator's deadline, a process that is
  /// alone ends with the same message. In a job of several processes, the job's watch ends it.
  void wait(int64_t number);
  /// Gives work and waits for it.
  void run(const std::string& what, Work work) { wait(give(what, std::move(work))); }
  /// Blocks until no given work is under way, whether it succeeded or failed. Hung ranks are treated as in `wait`.
  void finish();

 private:
  /// `step`: the training step's number; 0: not part of a step.
  int64_t give_work(const std::string& what, int64_t step, Work work);
  void exchange_kinds();
  /// Throws the job's failure, if it has failed.
  void throw_job_failure() const;
  std::vector<Communicator*> add_group(const std::vector<int>& ranks, const CommunicatorOptions& options);
  /// For a logged world. `own`: the ranks of `world_ranks` in this process.
  std::vector<Communicator*> add_logged_group(const std::vector<int>& own, const std::vector<int>& world_ranks);
  std::vector<Communicator*> keep_group(const std::vector<int>& ranks,
                                        std::vector<std::unique_ptr<Communicator>> communicators);
  /// The processes that have some of these ranks of the world.
  RanksOfProcesses processes_of(const std::vector<int>& ranks) const;
  /// For a logged world, whose first ranks these are.
  void make_logging_communicators(const std::vector<Device*>& devices);
  void fail(int rank, const std::string& what, std::exception_ptr failure);
  std::exception_ptr root_cause();
  /// Whether a rank has failed, and the others have had `timeout_s` to end since then.
  bool is_hung();
  [[noreturn]] void leave_hung();

  std::vector<std::unique_ptr<Device>> devices_;
  std::vector<std::unique_ptr<RankTimelines>> timelines_;  ///< by rank; empty: nothing is shown
  std::vector<std::unique_ptr<Communicator>> communicators_;
  std::vector<std::unique_ptr<Communicator>> host_communicators_;
  ProcessExchange* exchange_ = nullptr;             ///< with other processes; null if there are none
  std::vector<ProcessActivity::Thread*> activity_;  ///< by rank; empty without other processes
  std::vector<DeviceKind> kinds_;                   ///< by rank of the world
  struct Group {
    std::vector<int> ranks;  ///< of this process
    std::vector<std::unique_ptr<Communicator>> communicators;
  };
  std::vector<Group> groups_;
  CommunicatorOptions communicator_options_;
  ShownSteps shown_;
  std::optional<LoggedWorld> logged_;
  std::vector<CallLog> unread_calls_;  ///< logs that nobody reads

  std::mutex mutex_;
  std::exception_ptr root_cause_;
  Clock::time_point failed_at_;  ///< set once a rank has failed
  std::function<void(const Error&)> on_hung_;
  std::unique_ptr<WorkerThreads> threads_;  ///< ends first
};

}  // namespace dptrain::parallel
