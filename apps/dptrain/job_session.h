#pragma once

#include <atomic>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "comm/job.h"
#include "comm/job_watchdog.h"
#include "comm/process_exchange.h"
#include "comm/process_group.h"
#include "fault_report.h"
#include "nn/named_values.h"
#include "train/experiment.h"
#include "train/stop_signal.h"
#include "train/training_job.h"

namespace dptrain::app {

/// The job that this process was started in, by mpirun or srun; a process that was started alone is its own.
class JobSession {
 public:
  static constexpr const char* kAlike = "start all processes alike";

  /// Joins the job. Throws 69 where it can't be joined; ends the process with 69 where not all processes have joined in
  /// time. From then on the processes are watched: where one is lost, all others end with 75. `stop`: what asks this
  /// one to stop, and is set where another one is asked; outlives the session.
  /// `expected`: the run that is to be trained, for fault.json where they have not all joined; may throw.
  JobSession(train::StopSignal& stop, const std::function<ExpectedRun()>& expected);

  int processes() const { return job_ ? job_->processes() : 1; }
  int process() const { return job_ ? job_->process() : 0; }
  /// The process that writes files and talks.
  bool is_main() const { return process() == 0; }

  /// What a configuration is read in.
  train::ConfigJob config_job();
  /// What this process is to train, unless the others disagree: of the main process, which leaves fault.json then.
  void expect_training(const train::Experiment& experiment, const std::filesystem::path& directory,
                       train::EarlierRun earlier);
  /// All processes have read their configuration. Throws 76, naming the first key that differs and both values, where
  /// it isn't the same one, or builds differ; keys that may differ by host aside. Where there are several processes the
  /// experiment is part of the job from now on, and those that don't train call nothing of what follows but `serve` and
  /// the ends. `config`: the resolved one, as YAML.
  void form_training(const std::string& config, train::Experiment& experiment);
  /// Whether this process trains, rather than being a server of a key-value store, or its scheduler, alone.
  bool is_worker() const { return roles_.is_worker(process()) || !exchange_; }
  /// Is a server, or the scheduler. Blocks until the workers have ended.
  void serve(const train::Experiment& experiment);
  /// Throws 76, naming `what` and both values, where this process has another value than the main one.
  void agree_on(const std::string& what, const std::string& own, const std::string& advice = kAlike);
  /// The same of tensors: of those that the main process has as well, the first whose values differ.
  void agree_on_weights(const std::vector<nn::NamedValues>& own);
  /// Calls `act` in the first process of each host, and then in the others, which find what that one has kept of the
  /// data. Blocks.
  void one_of_each_host_first(const std::function<void()>& act);
  /// What each process has to say, by process: on the main one; nothing elsewhere.
  std::vector<std::string> gather(const std::string& own) {
    return group_ ? group_->gather(own) : std::vector<std::string>{own};
  }
  /// What the main process says, on all of them.
  std::string from_main(const std::string& own) { return group_ ? group_->from_main(own) : own; }

  /// A training of this run begins in `directory`, so that from now on a failure leaves fault.json there. Of all
  /// processes that train.
  void begin_training(const train::Experiment& experiment, const std::filesystem::path& directory,
                      const std::optional<train::FaultRecord::Saved>& resumed);
  /// There is nothing to train. Of the same.
  void begin_nothing();
  /// Where the thread that trains is; null in a process that is alone.
  ProcessActivity::Thread* trainer() { return exchange_ ? &exchange_->activity().add("") : nullptr; }
  /// How far the training is.
  JobProgress& progress() { return report_->progress(); }

  /// The regular end, of all processes.
  void finish();
  /// The end after a failure: leaves fault.json. Where there are other processes these end with the same sentence;
  /// returns where there are none.
  void leave_after(const std::exception& failure);
  /// The same of a process that is alone and in which a rank hangs: leaves the stacks of its threads, too.
  void leave_hung(const std::exception& failure);

 private:
  /// How long processes wait for each other before the training, and between steps. Nobody knows how long data take to
  /// be read, or a checkpoint to be written; who is lost meanwhile, or hangs in a step, the watch finds.
  static constexpr double kWatched_s = 7 * 24 * 3600;

  void agree_on_config(const std::string& own);
  /// Who trains and who serves; servers that are processes of their own leave the group of those that train.
  void take_roles(const train::Experiment& experiment);
  /// Which device of which process each rank is.
  std::vector<train::RankPlace> gather_places(const std::vector<DeviceId>& own);
  /// One line of the main process where cores were left to some of them that are too few: what mpirun does by itself.
  void warn_of_narrow_masks(const std::string& own);
  /// One line of the main process where processes drive the same GPU.
  void warn_of_shared_gpus(const std::vector<DeviceId>& own);
  struct Compared {
    std::string of_main, own;
  };
  /// All go on, where every one agrees with the main one; else who doesn't throws 76 and the others wait for that.
  void require_agreement(const std::string& what, const Compared& values, const std::string& advice);
  /// "process 1 on b"
  std::string place_of(int process) const;
  /// What all processes say of a failure of this one, whose file, disk or device may be there on the others' hosts.
  std::string with_host(const Error& error) const;
  /// "process 1 (host b, pid 77, ranks 2, 3)", "process 3 (host b, pid 78, server 0)"
  std::string name_of(int process);
  /// Of the world, that a process has; none before they are agreed on, and where it doesn't train.
  RankRun ranks_of(int process);
  /// ", server 0", ", the scheduler" of a process that is this alone; "" of others.
  std::string role_of(int process);
  void watch(train::StopSignal& stop);
  /// What begin_training says on the main process, in the others that serve.
  void hear_of_training();
  struct TrainingNews;
  /// From now on the training can fail.
  void note_begin(const TrainingNews& news);
  std::vector<std::optional<int>> first_ranks();
  /// Says it, writes it down and ends the process; one thread does, any other one stays in here.
  [[noreturn]] void leave_with(const JobFailure& failure, const std::vector<std::string>& before = {});

  std::unique_ptr<Job> job_;  ///< none where the process was started alone
  std::optional<FaultReport> report_;
  std::atomic_flag is_leaving_ = ATOMIC_FLAG_INIT;
  std::mutex names_mutex_;
  std::optional<WorldShape> shape_;  ///< of those that train, once it is agreed on
  std::unique_ptr<ProcessExchange> exchange_;
  std::unique_ptr<JobWatchdog> watchdog_;
  std::unique_ptr<ProcessGroup> group_;     ///< of all, then of those that train; null where this one doesn't
  std::unique_ptr<ProcessGroup> everyone_;  ///< of all, where some don't train
  parallel::StoreRoles roles_;
  std::shared_ptr<parallel::StoreLinks> store_links_;
  std::optional<train::TrainingJob> training_;
};

}  // namespace dptrain::app
