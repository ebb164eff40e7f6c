#pragma once

#include <atomic>
#include <cstdint>
#include <string>

namespace dptrain {

/// What a process that trains is at.
enum class JobPhase : int32_t { start, loading, step, evaluation, checkpoint };

/// How far a process has come, for whoever has to tell of it. Written by one thread, read by any.
struct JobProgress {
  std::atomic<JobPhase> phase = JobPhase::start;
  std::atomic<int64_t> step = 0;  ///< the last that was begun, from 1
  /// The step of the last checkpoint that is known to be whole; -1: none. Processes that don't write them learn it from
  /// the one that does.
  std::atomic<int64_t> checkpoint = -1;
  /// Whether this process trains. Where it doesn't, how far it is is how far process 0 was when it was last heard of.
  std::atomic<bool> trains = true;
  /// After so many seconds without progress of its own it is lost; 0: never.
  std::atomic<double> timeout_s = 0;
};

/// "in step 37", "loading the batch of step 38", "in the evaluation after step 938"
std::string describe_progress(JobPhase phase, int64_t step);

}  // namespace dptrain
