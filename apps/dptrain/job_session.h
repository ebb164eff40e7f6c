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

/// The job that mpirun or srun started this process in. A process that was started alone is a job of one.
class JobSession {
 public:
  static constexpr const char* kAlike = "start all processes alike";

  /// Joins the job and starts the watch over its processes. Throws 69 if the job can't be joined; ends the process with
  /// exit code 69 if not all processes join in time. Once the watch runs, a lost process makes all others exit with
  /// code 75. `stop` asks this process to stop; it is also set if another process is asked, and must outlive the
  /// session. `expected` returns the run to be trained, for the fault.json of a job that doesn't form; it may throw.
  JobSession(train::StopSignal& stop, const std::function<ExpectedRun()>& expected);

  int processes() const { return job_ ? job_->processes() : 1; }
  int process() const { return job_ ? job_->process() : 0; }
  /// Whether this process writes the files and the messages of the job.
  bool is_main() const { return process() == 0; }

  /// The job as the configuration reader needs it.
  train::ConfigJob config_job();
  /// Tells the failure report which run is about to be trained, in case the processes disagree on it. Only the main
  /// process uses the call: it then writes fault.json.
  void expect_training(const train::Experiment& experiment, const std::filesystem::path& directory,
                       train::EarlierRun earlier);
  /// Checks that all processes have read the same configuration, and makes the experiment part of the job if there are
  /// several processes. Throws 76 if the configurations or the builds differ, naming the first key that differs and
  /// both values; keys that may differ between hosts are ignored. All processes call it. After it, processes that don't
  /// train may only call `serve` and the functions that end the session. `config`: the resolved one, as YAML.
  void form_training(const std::string& config, train::Experiment& experiment);
  /// Whether this process trains. Other processes are only a server of a key-value store, or its scheduler.
  bool is_worker() const { return roles_.is_worker(process()) || !exchange_; }
  /// Runs a server or the scheduler. Blocks until the workers have ended.
  void serve(const train::Experiment& experiment);
  /// Throws 76, naming `what` and both values, if this process's value differs from the main process's.
  void agree_on(const std::string& what, const std::string& own, const std::string& advice = kAlike);
  /// Checks tensors in the same way: names the first tensor that both processes have and whose values differ.
  void agree_on_weights(const std::vector<nn::NamedValues>& own);
  /// Calls `act` in the first process of each host, and then in the host's other processes, which find the data that
  /// the first one has cached. Blocks.
  void one_of_each_host_first(const std::function<void()>& act);
  /// Collects one text from each process, by process. Only the main process gets the texts; the others get nothing.
  std::vector<std::string> gather(const std::string& own) {
    return group_ ? group_->gather(own) : std::vector<std::string>{own};
  }
  /// Returns the main process's text on all processes.
  std::string from_main(const std::string& own) { return group_ ? group_->from_main(own) : own; }

  /// Announces that the training of this run begins in `directory`: from now on a failure leaves fault.json there. All
  /// processes that train call it.
  void begin_training(const train::Experiment& experiment, const std::filesystem::path& directory,
                      const std::optional<train::FaultRecord::Saved>& resumed);
  /// Announces that there is nothing to train. All processes that train call it.
  void begin_nothing();
  /// The activity record of the thread that trains; null if the process is alone.
  ProcessActivity::Thread* trainer() { return exchange_ ? &exchange_->activity().add("") : nullptr; }
  /// How far the training has come.
  JobProgress& progress() { return report_->progress(); }

  /// Ends the session normally. All processes call it.
  void finish();
  /// Ends the session after a failure and leaves fault.json. Other processes of the job end with the same sentence;
  /// returns if there are none.
  void leave_after(const std::exception& failure);
  /// Ends a process that is alone and in which a rank hangs. It also leaves the stacks of the process's threads.
  void leave_hung(const std::exception& failure);

 private:
  /// How long processes wait for each other before the training and between steps. Reading data or writing a checkpoint
  /// may take any time; the watchdog finds a process that is lost meanwhile, or that hangs in a step.
  static constexpr double kWatched_s = 7 * 24 * 3600;

  void agree_on_config(const std::string& own);
  /// Decides who trains and who serves. Servers that are processes of their own leave the group of those that train.
  void take_roles(const train::Experiment& experiment);
  /// Finds the device and the process of each rank.
  std::vector<train::RankPlace> gather_places(const std::vector<DeviceId>& own);
  /// Makes the main process warn, in one line, if the launcher has left some processes too few cores: mpirun binds
  /// processes to cores by default.
  void warn_of_narrow_masks(const std::string& own);
  /// Makes the main process warn, in one line, if several processes drive the same GPU.
  void warn_of_shared_gpus(const std::vector<DeviceId>& own);
  struct Compared {
    std::string of_main, own;
  };
  /// Returns if every process agrees with the main one. Otherwise each process that disagrees throws 76, and the others
  /// wait for the resulting failure.
  void require_agreement(const std::string& what, const Compared& values, const std::string& advice);
  /// "process 1 on b"
  std::string place_of(int process) const;
  /// The sentence for all processes. It names this process's host, because a file, disk or device that is missing here
  /// may exist on the other hosts.
  std::string with_host(const Error& error) const;
  /// "process 1 (host b, pid 77, ranks 2, 3)", "process 3 (host b, pid 78, server 0)"
  std::string name_of(int process);
  /// The ranks of the world that a process has; none before the ranks are agreed on, and for a process that doesn't
  /// train.
  RankRun ranks_of(int process);
  /// ", server 0" or ", the scheduler" for a process that is nothing else; "" for all others.
  std::string role_of(int process);
  void watch(train::StopSignal& stop);
  /// Waits, in a process that serves, for the run that begin_training announces on the main process.
  void hear_of_training();
  struct TrainingNews;
  /// Tells the launcher and the failure report that the training can fail from now on.
  void note_begin(const TrainingNews& news);
  std::vector<std::optional<int>> first_ranks();
  /// Reports the failure, writes fault.json and ends the process. One thread does so; any other thread that calls it
  /// never returns.
  [[noreturn]] void leave_with(const JobFailure& failure, const std::vector<std::string>& before = {});

  std::unique_ptr<Job> job_;  ///< none if the process was started alone
  std::optional<FaultReport> report_;
  std::atomic_flag is_leaving_ = ATOMIC_FLAG_INIT;
  std::mutex names_mutex_;
  std::optional<WorldShape> shape_;  ///< of the processes that train, once it is agreed on
  std::unique_ptr<ProcessExchange> exchange_;
  std::unique_ptr<JobWatchdog> watchdog_;
  /// Of all processes, then of those that train; null in a process that doesn't train.
  std::unique_ptr<ProcessGroup> group_;
  std::unique_ptr<ProcessGroup> everyone_;  ///< of all processes, if some of them don't train
  parallel::StoreRoles roles_;
  std::shared_ptr<parallel::StoreLinks> store_links_;
  std::optional<train::TrainingJob> training_;
};

}  // namespace dptrain::app
