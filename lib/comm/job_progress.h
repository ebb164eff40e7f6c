#pragma once

#include <atomic>
#include <cstdint>
#include <string>

namespace dptrain {

/// What a training process is doing.
enum class JobPhase : int32_t { start, loading, step, evaluation, checkpoint };

/// How far a process has come, for reports. Written by one thread, read by any.
struct JobProgress {
  std::atomic<JobPhase> phase = JobPhase::start;
  std::atomic<int64_t> step = 0;  ///< the last step that was begun, from 1
  /// The step of the last checkpoint that is known to be complete; -1: none. Only process 0 writes checkpoints; the
  /// others learn the step from it.
  std::atomic<int64_t> checkpoint = -1;
  /// Whether this process trains. If it doesn't, its progress is what process 0 last reported.
  std::atomic<bool> trains = true;
  /// Seconds without progress after which the process counts as lost; 0: never.
  std::atomic<double> timeout_s = 0;
};

/// Describes the progress: "in step 37", "while loading the batch of step 38", "in the evaluation after step 938".
std::string describe_progress(JobPhase phase, int64_t step);

}  // namespace dptrain
