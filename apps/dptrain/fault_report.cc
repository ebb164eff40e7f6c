#include "fault_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/file.h"
#include "resume_command.h"
#include "train/checkpoint_files.h"
#include "train/directory_lock.h"
#include "train/run_directory.h"

namespace dptrain::app {
namespace {

/// How long a process waits for its threads' stacks.
constexpr double kStacks_s = 0.25;

}  // namespace

FaultReport::FaultReport(int process, std::vector<JobProcess> processes)
    : process_(process), processes_(std::move(processes)) {}

void FaultReport::expect(ExpectedRun run) {
  const std::lock_guard lock(expected_mutex_);
  expected_ = std::move(run);
}

void FaultReport::begin(FaultContext context) {
  context_ = std::move(context);
  if (context_.resumed) {
    progress_.checkpoint = progress_.step = context_.resumed->step;
    began_at_other_run_ = !train::lies_in_run(context_.resumed->path, context_.directory);
  }
  // Process 0 has already removed its own record with the rest of what an earlier run left.
  std::error_code absent;
  if (process_ != 0)
    for (const std::filesystem::path& earlier : {file(), stacks_file()}) std::filesystem::remove(earlier, absent);
  lock_ = train::lock_number(context_.directory);
  begun_ = true;
}

JobFailure FaultReport::completed(JobFailure failure) const {
  if (!begun_) return failure;
  if (failure.process == process_ || failure.process < 0) failure.step = progress_.step;
  failure.checkpoint = progress_.checkpoint;
  failure.steps_lost = std::max<int64_t>(0, progress_.step - std::max<int64_t>(0, failure.checkpoint));
  return failure;
}

bool FaultReport::is_of_other_run(int64_t checkpoint) const {
  return began_at_other_run_ && context_.resumed->step == checkpoint;
}

std::string FaultReport::resume(const JobFailure& failure) const {
  return resume_command(context_.start, failure.checkpoint >= 0 && !is_of_other_run(failure.checkpoint));
}

std::string FaultReport::line(const JobFailure& failure) const {
  if (failure.code != ExitCode::peer_lost || failure.steps_lost < 0 || !begun_) return failure.sentence;
  return fmt::format("{}; {} {} lost, resume with: {}", failure.sentence, failure.steps_lost,
                     failure.steps_lost == 1 ? "step" : "steps", resume(failure));
}

std::filesystem::path FaultReport::file() const {
  return context_.directory / train::fault_name(first_rank(), process_);
}

std::filesystem::path FaultReport::stacks_file() const {
  return context_.directory / train::fault_stacks_name(first_rank(), process_);
}

void FaultReport::keep_stacks() noexcept {
  try {
    const std::lock_guard lock(stacks_mutex_);
    if (stacks_.empty()) stacks_ = take_thread_stacks(kStacks_s);
  } catch (const std::exception&) {
    // The failure itself is reported in any case.
  }
}

std::optional<train::FaultRecord::Saved> FaultReport::last_checkpoint(const JobFailure& failure) const {
  std::optional<train::FaultRecord::Saved> last;
  if (is_of_other_run(failure.checkpoint))
    last = context_.resumed;
  else if (failure.checkpoint >= 0)
    last = {.path = context_.directory / "checkpoints" / train::checkpoint_name(failure.checkpoint),
            .step = failure.checkpoint};
  if (last) last->manifest_sha256 = train::manifest_sha256(last->path);
  // An evaluation that diverges puts its checkpoint aside. A checkpoint that the disk can't read is no use either.
  if (process_ == 0 && last && last->manifest_sha256.empty()) last.reset();
  return last;
}

bool FaultReport::writes_unbegun(const JobFailure& failure) const {
  if (begun_) return false;
  // Process 0 writes, or process 1 if process 0 is the lost one.
  if (failure.code == ExitCode::peer_lost) return process_ == (failure.process == 0 ? 1 : 0);
  return failure.code == ExitCode::ranks_disagree && process_ == 0;
}

void FaultReport::write(const JobFailure& failure, const std::vector<BegunOperation>& operations) noexcept {
  const bool is_stop = static_cast<int>(failure.code) > 128;
  std::error_code absent;
  try {
    const auto root = static_cast<size_t>(failure.process < 0 ? process_ : failure.process);
    std::vector<train::FaultRecord::Operation> begun;
    for (const BegunOperation& operation : operations)
      begun.push_back({.name = operation.name, .ago_s = seconds_since(operation.begun_at)});
    if (writes_unbegun(failure)) {
      const std::lock_guard lock(expected_mutex_);
      if (expected_) write_unbegun_fault(*expected_, failure, processes_[root], begun);
    }
    // Another run's directory may have taken the place of this one.
    const bool is_there =
        std::filesystem::is_directory(context_.directory, absent) && train::lock_number(context_.directory) == lock_;
    if (!begun_ || is_stop || !is_there) return;
    const std::lock_guard lock(stacks_mutex_);
    const std::string stacks = stacks_.empty() ? "" : stacks_file().filename().string();
    // On a busy disk, a sync may take longer than this process may wait.
    write_file_unsynced(
        file(), train::fault_json({.run = context_.run,
                                   .rank = first_rank(),
                                   .exit = failure.code,
                                   .root = {.rank = context_.first_ranks[root],
                                            .host = processes_[root].host,
                                            .pid = processes_[root].pid,
                                            .step = failure.step >= 0 ? std::optional(failure.step) : std::nullopt,
                                            .operation = failure.operation,
                                            .cause = failure.sentence},
                                   .detected_s = failure.detected_s,
                                   .last_checkpoint = last_checkpoint(failure),
                                   .steps_lost = std::max<int64_t>(0, failure.steps_lost),
                                   .resume = resume(failure),
                                   .operations = begun,
                                   .stacks = stacks}));
    // The stacks come last, because describing them waits for the dynamic loader, in which a thread may hang.
    if (!stacks_.empty()) write_file_unsynced(stacks_file(), describe_stacks(stacks_));
  } catch (const std::exception&) {
    // The failure itself is reported in any case.
  }
}

}  // namespace dptrain::app
