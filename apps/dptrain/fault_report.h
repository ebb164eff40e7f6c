#pragma once

#include <atomic>
#include <filesystem>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/thread_stacks.h"
#include "comm/job.h"
#include "comm/job_progress.h"
#include "comm/process_exchange.h"
#include "train/fault_record.h"
#include "train/forwarding_observer.h"
#include "unbegun_fault.h"

namespace dptrain::app {

/// The facts about a run that a failure report needs.
struct FaultContext {
  std::string run;
  std::filesystem::path directory;                   ///< of the run; may exist on another host only
  std::vector<std::optional<int>> first_ranks;       ///< by process of the job; none for a process that doesn't train
  std::optional<train::FaultRecord::Saved> resumed;  ///< the checkpoint that the run goes on from
  std::vector<std::string> start;                    ///< see start_words
};

/// Reports why a process's training failed: to the user, and in fault.json. The thread that trains fills the report;
/// any thread may read it when it ends the process.
class FaultReport {
 public:
  /// `processes`: all processes of the job; only this one if there is no job.
  FaultReport(int process, std::vector<JobProcess> processes);

  /// From now on a failure before the training begins leaves fault.json as well: processes disagree on what to train,
  /// or one of them dies. A later call replaces the run given earlier.
  void expect(ExpectedRun run);
  /// From now on the training itself can fail.
  void begin(FaultContext context);
  /// Adds to a failure what this process knows: the lost steps and, if the failure is its own, the step. The first
  /// process that reports the failure calls it.
  JobFailure completed(JobFailure failure) const;
  /// The last line on stderr, without "dptrain: ".
  std::string line(const JobFailure& failure) const;
  /// Writes fault.json to the run directory if this host has the directory, and the training has begun or failed as
  /// `expect` describes. A stop by a signal writes nothing. Ignores write errors, because the failure itself is more
  /// important. `operations`: the last ones that the process began, see ProcessExchange.
  void write(const JobFailure& failure, const std::vector<BegunOperation>& operations) noexcept;
  /// Records where this process's threads are now, because they caused the failure; the report will contain their
  /// stacks. Only the first call counts. Blocks for at most a quarter of a second.
  void keep_stacks() noexcept;

  JobProgress& progress() { return progress_; }

 private:
  /// Whether this process writes the record of a failure that came before the training began.
  bool writes_unbegun(const JobFailure& failure) const;
  bool is_of_other_run(int64_t checkpoint) const;
  std::string resume(const JobFailure& failure) const;
  std::optional<int> first_rank() const { return context_.first_ranks[static_cast<size_t>(process_)]; }
  std::filesystem::path file() const;
  std::filesystem::path stacks_file() const;
  std::optional<train::FaultRecord::Saved> last_checkpoint(const JobFailure& failure) const;

  const int process_;
  const std::vector<JobProcess> processes_;
  JobProgress progress_;
  FaultContext context_;
  bool began_at_other_run_ = false;  ///< from a checkpoint of another run
  std::mutex stacks_mutex_;
  std::vector<ThreadStack> stacks_;
  std::mutex expected_mutex_;
  std::optional<ExpectedRun> expected_;
  std::optional<FileNumber> lock_;  ///< of the run directory's lock; none if this host doesn't have the directory
  std::atomic<bool> begun_ = false;
};

/// Records how far the training has come.
class ProgressRecorder final : public train::ForwardingObserver {
 public:
  ProgressRecorder(train::TrainingObserver& observer, JobProgress& progress)
      : ForwardingObserver(observer), progress_(progress) {}

  void on_phase(JobPhase phase, int64_t step) override {
    progress_.phase = phase;
    progress_.step = step;
    ForwardingObserver::on_phase(phase, step);
  }
  void on_checkpoint(int64_t step) override {
    progress_.checkpoint = step;
    ForwardingObserver::on_checkpoint(step);
  }

 private:
  JobProgress& progress_;
};

}  // namespace dptrain::app
