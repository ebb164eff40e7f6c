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

/// The ranks of this process: a device, a communicator and a thread each. A rank that fails makes all others stop with
/// its cause. They are numbered from 0 here, also where processes before this one have ranks of the same world: rank r
/// is then rank first_rank() + r of it.
class RankTeam {
 public:
  struct Options {
    std::vector<DeviceId> devices;
    std::vector<int> threads;        ///< CPU threads by rank
    int64_t memory_limit_bytes = 0;  ///< of each device; 0: none
    double timeout_s = 300;          ///< of every wait for another rank
    bool deterministic = false;      ///< of GPUs; see DeviceOptions
    bool tf32 = false;
    bool records = true;                         ///< of GPUs; see DeviceOptions
    std::optional<LinkSpec> links = {};          ///< that communication is held to
    std::optional<RanksOfProcesses> world = {};  ///< of all processes, where there are several
    std::vector<RankPair> messages = {};         ///< as CommunicatorOptions has it, between ranks of the world
    /// Ranks that log what they would compute and send, in a world whose first ranks they are.
    std::optional<LoggedWorld> logged = {};
    bool times_operators = false;  ///< see DeviceOptions
    bool has_timelines = false;    ///< steps may be shown: see `show_steps`
    /// Called before the process ends because a rank has failed and another one's thread hangs: see `wait`.
    std::function<void(const Error&)> on_hung = {};
  };
  /// Opens the devices and starts the threads. Throws 71 where a device can't be opened, or a thread not started.
  explicit RankTeam(const Options& options);

  int size() const { return static_cast<int>(devices_.size()); }
  int world_size() const { return communicators_.front()->size(); }
  int first_rank() const { return communicators_.front()->rank(); }
  /// Whether it is rank 0 of the world.
  bool is_first(int rank) const { return first_rank() + rank == 0; }
  bool spans_processes() const { return world_size() > size(); }
  /// Whether its ranks only log what they would do; those of other processes aren't there then.
  bool is_logged() const { return logged_.has_value(); }
  /// Where a rank's calls are written down; null where they are made.
  CallLog* logged_calls(int rank) { return logged_ ? &logged_->calls->at(static_cast<size_t>(rank)) : nullptr; }
  Device& device(int rank) { return *devices_[static_cast<size_t>(rank)]; }
  const Device& device(int rank) const { return *devices_[static_cast<size_t>(rank)]; }
  /// Of a rank of the world.
  DeviceKind kind(int world_rank) const { return kinds_[static_cast<size_t>(world_rank)]; }
  Communicator& communicator(int rank) { return *communicators_[static_cast<size_t>(rank)]; }
  /// The same ranks over host memory, whatever their devices.
  Communicator& host_communicator(int rank) { return *host_communicators_[static_cast<size_t>(rank)]; }

  /// Communicators for these ranks of this process alone, in this order; element i is ranks[i]'s. They live as long as
  /// the team, and end with it where a rank fails. Not while `run` runs.
  std::vector<Communicator*> form_group(const std::vector<int>& ranks);
  /// The same for ranks of the world, in ascending order; element i is null where another process has that rank. All
  /// processes form the same groups in the same order, those that they have no rank of, too.
  std::vector<Communicator*> form_world_group(const std::vector<int>& world_ranks);
  /// What a rank has sent, in its groups as well.
  CommCounts counts(int rank) const;

  /// From now on these steps are shown, if the team has timelines. No step is under way.
  void show_steps(const ShownSteps& steps) { shown_ = steps; }
  /// Where a rank's exchanges are shown that go through this process's memory; null: nowhere.
  Timeline* exchange_timeline(int rank) {
    return timelines_.empty() ? nullptr : &timelines_[static_cast<size_t>(rank)]->exchanges();
  }
  /// What each rank was at in steps that have been shown since the last call; those that were given are done.
  std::vector<std::vector<TimelineRow>> take_timelines();

  using Work = std::function<void(int rank)>;
  /// Gives work to every rank's thread, which calls work(rank) once it is done with what it was given before; no rank
  /// waits for the others to begin. Returns the number of what was given, from 1.
  int64_t give(const std::string& what, Work work);
  /// The same of a step of a training.
  int64_t give_step(int64_t step, Work work);
  /// Blocks until all ranks have done what was given up to `number`: computing takes as long as it takes, and a rank
  /// that waits for another has the communicator's deadline. Where a rank throws, nothing that was given is begun
  /// anymore, and this throws the root cause, whenever it is called after: the first failure, as an Error that begins
  /// with its rank, its device and `what` ("step 12"). Of a process that is alone, where a rank hasn't ended that
  /// deadline later, and so may never do, this ends the process in the same words; of a job the watch does.
  void wait(int64_t number);
  /// Gives and waits.
  void run(const std::string& what, Work work) { wait(give(what, std::move(work))); }
  /// Blocks until nothing that was given is under way, however it ended; as for `wait`.
  void finish();

 private:
  /// In a step of the training, or, 0, in none.
  int64_t give_work(const std::string& what, int64_t step, Work work);
  void exchange_kinds();
  /// What the job has failed of, where it has.
  void throw_job_failure() const;
  std::vector<Communicator*> add_group(const std::vector<int>& ranks, const CommunicatorOptions& options);
  /// Of a logged world, where `own` are there.
  std::vector<Communicator*> add_logged_group(const std::vector<int>& own, const std::vector<int>& world_ranks);
  std::vector<Communicator*> keep_group(const std::vector<int>& ranks,
                                        std::vector<std::unique_ptr<Communicator>> communicators);
  /// Of ranks of the world: the processes that have some.
  RanksOfProcesses processes_of(const std::vector<int>& ranks) const;
  /// Of the first ranks of a logged world.
  void make_logging_communicators(const std::vector<Device*>& devices);
  void fail(int rank, const std::string& what, std::exception_ptr failure);
  std::exception_ptr root_cause();
  /// Whether ranks have had their time to end after a failure: as long as others may wait for them.
  bool is_hung();
  [[noreturn]] void leave_hung();

  std::vector<std::unique_ptr<Device>> devices_;
  std::vector<std::unique_ptr<RankTimelines>> timelines_;  ///< by rank; empty: nothing is shown
  std::vector<std::unique_ptr<Communicator>> communicators_;
  std::vector<std::unique_ptr<Communicator>> host_communicators_;
  ProcessExchange* exchange_ = nullptr;             ///< with other processes, where there are any
  std::vector<ProcessActivity::Thread*> activity_;  ///< by rank, where there are any
  std::vector<DeviceKind> kinds_;                   ///< by rank of the world
  struct Group {
    std::vector<int> ranks;  ///< of this process
    std::vector<std::unique_ptr<Communicator>> communicators;
  };
  std::vector<Group> groups_;
  CommunicatorOptions communicator_options_;
  ShownSteps shown_;
  std::optional<LoggedWorld> logged_;
  std::vector<CallLog> unread_calls_;  ///< of which nobody asks

  std::mutex mutex_;
  std::exception_ptr root_cause_;
  Clock::time_point failed_at_;  ///< where there is one
  std::function<void(const Error&)> on_hung_;
  std::unique_ptr<WorkerThreads> threads_;  ///< end first
};

}  // namespace dptrain::parallel
