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

/// What there is to say of a training that fails.
struct FaultContext {
  std::string run;
  std::filesystem::path directory;                   ///< of the run; may be another host's
  std::vector<std::optional<int>> first_ranks;       ///< of all processes of the job; none of one that doesn't train
  std::optional<train::FaultRecord::Saved> resumed;  ///< from where it goes on
  std::vector<std::string> start;                    ///< see start_words
};

/// What a process has to say where its training fails: to the user, and in fault.json. Begun by the thread that trains,
/// and read by whichever one ends the process.
class FaultReport {
 public:
  /// `processes`: of the job; this one alone where there is none.
  FaultReport(int process, std::vector<JobProcess> processes);

  /// From now on the processes may disagree on what to train, or one of them die, which leaves fault.json as well. A
  /// later call knows better.
  void expect(ExpectedRun run);
  /// From now on the training can fail.
  void begin(FaultContext context);
  /// The same failure with what this process, which tells of it first, knows: the step, if it is its own, and what is
  /// lost.
  JobFailure completed(JobFailure failure) const;
  /// The last line on stderr, without "dptrain: ".
  std::string line(const JobFailure& failure) const;
  /// Leaves fault.json in the run directory, where this host has it and the training has begun, or is expected and was
  /// not to be the same in all processes; a stop by a signal is none. Where it can't be written nothing happens: there
  /// is something worse to tell.
  /// `operations`: that the process began last, see ProcessExchange.
  void write(const JobFailure& failure, const std::vector<BegunOperation>& operations) noexcept;
  /// Where this process's threads are now belongs to what is written, as they are why it has failed; the first call
  /// counts. Blocks for a quarter of a second at most.
  void keep_stacks() noexcept;

  JobProgress& progress() { return progress_; }

 private:
  /// Whether it is this process that leaves the record of a failure before the training has begun.
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
  bool began_at_other_run_ = false;  ///< at a checkpoint of it
  std::mutex stacks_mutex_;
  std::vector<ThreadStack> stacks_;
  std::mutex expected_mutex_;
  std::optional<ExpectedRun> expected_;
  std::optional<FileNumber> lock_;  ///< of the run directory; none where this host doesn't have it
  std::atomic<bool> begun_ = false;
};

/// Keeps in mind how far the training is.
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
