#pragma once

#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/job.h"
#include "comm/process_exchange.h"
#include "comm/process_group.h"
#include "train/experiment.h"
#include "train/training_job.h"

namespace dptrain::app {

/// The job that this process was started in, by mpirun or srun; a process that was started alone is its own.
class JobSession {
 public:
  /// Joins the job. Throws 69 where it can't be joined; ends the process with 69 where not all processes have joined in
  /// time.
  JobSession();

  int processes() const { return job_ ? job_->processes() : 1; }
  int process() const { return job_ ? job_->process() : 0; }
  /// The process that writes files and talks.
  bool is_main() const { return process() == 0; }

  /// What a configuration is read in.
  train::ConfigJob config_job();
  /// All processes have read their configuration. Throws 76, naming the first key that differs and both values, where
  /// it isn't the same one, or builds differ; keys that may differ by host aside. Where there are several processes the
  /// experiment is part of the job from now on, and those that don't train call nothing of what follows but `serve` and
  /// the ends. `config`: the resolved one, as YAML.
  void agree_on(const std::string& config, train::Experiment& experiment);
  /// Whether this process trains, rather than being a server of a key-value store, or its scheduler, alone.
  bool is_worker() const { return roles_.is_worker(process()) || !job_; }
  /// Is a server, or the scheduler. Blocks until the workers have ended.
  void serve(const train::Experiment& experiment);
  /// Throws 76, naming `what` and both values, where this process has another value than the main one.
  void agree_on(const std::string& what, const std::string& own);
  /// What the main process says, on all of them.
  std::string from_main(const std::string& own) { return group_ ? group_->from_main(own) : own; }

  /// The regular end, of all processes.
  void finish();
  /// The end after a failure, where there are other processes: these end with the same sentence. Returns where there
  /// are none.
  void leave_after(const std::exception& failure);

 private:
  /// "process 1 on b"
  std::string name_of(int process) const;

  std::unique_ptr<Job> job_;  ///< none where the process was started alone
  std::unique_ptr<ProcessExchange> exchange_;
  std::unique_ptr<ProcessGroup> group_;  ///< of all, then of those that train; null where this one doesn't
  parallel::StoreRoles roles_;
  std::shared_ptr<parallel::StoreLinks> store_links_;
  std::optional<train::TrainingJob> training_;
};

}  // namespace dptrain::app
