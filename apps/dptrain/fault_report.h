#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "comm/job.h"
#include "comm/job_progress.h"
#include "comm/process_exchange.h"
#include "train/fault_record.h"
#include "train/trainer.h"

namespace dptrain::app {

/// What a process has to say where its training fails: to the user, and in fault.json. Written by the thread that
/// trains, before the training begins, and read by whichever one ends the process.
class FaultReport {
 public:
  /// `processes`: of the job; this one alone where there is none.
  FaultReport(int process, std::vector<JobProcess> processes);

  /// A training that can fail has begun in this run directory, which may be another host's. `resumed`: from where.
  void begin(const std::string& run, const std::filesystem::path& directory,
             const std::optional<train::FaultRecord::Saved>& resumed);
  /// The same failure with the step and what is lost, where it is this process's.
  JobFailure completed(JobFailure failure) const;
  /// The last line on stderr, without "dptrain: ".
  std::string line(const JobFailure& failure) const;
  /// Leaves fault.json in the run directory, where this host has it and the training has begun; a stop by a signal is
  /// none. Where it can't be written nothing happens: there is something worse to tell.
  void write(const JobFailure& failure) const noexcept;

  JobProgress& progress() { return progress_; }
  const JobProgress& progress() const { return progress_; }

 private:
  bool is_stop(const JobFailure& failure) const { return static_cast<int>(failure.code) > 128; }

  const int process_;
  const std::vector<JobProcess> processes_;
  const std::string resume_;  ///< the command
  JobProgress progress_;
  bool begun_ = false;
  std::string run_;
  std::filesystem::path directory_;
  std::optional<train::FaultRecord::Saved> resumed_;
};

/// The command that goes on with the newest checkpoint of a job that was started with `arguments`: `mpirun -n 2 dptrain
/// --config ... --resume`, as a shell takes it.
std::string resume_command(const std::vector<std::string>& arguments, const std::vector<JobProcess>& processes);

/// Passes everything on to another observer and keeps in mind how far the training is.
class ProgressRecorder final : public train::TrainingObserver {
 public:
  ProgressRecorder(train::TrainingObserver& observer, JobProgress& progress)
      : observer_(observer), progress_(progress) {}

  void on_trial(const std::string& strategy, size_t number, size_t count) override {
    observer_.on_trial(strategy, number, count);
  }
  void on_choice(const train::StrategyChoice& choice) override { observer_.on_choice(choice); }
  void on_phase(JobPhase phase, int64_t step) override {
    progress_.phase = phase;
    progress_.step = step;
  }
  void on_checkpoint(int64_t step) override { progress_.checkpoint = step; }
  void on_step(const Progress& progress) override { observer_.on_step(progress); }
  void on_epoch(const train::EpochMetrics& metrics) override { observer_.on_epoch(metrics); }

 private:
  train::TrainingObserver& observer_;
  JobProgress& progress_;
};

}  // namespace dptrain::app
