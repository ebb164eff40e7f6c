#pragma once

#include <cstdint>
#include <string>

#include "base/error.h"

namespace dptrain {

/// A failure that ended a job, with the sentence that reports it.
struct JobFailure {
  ExitCode code = ExitCode::peer_lost;
  std::string sentence;
  int process = -1;            ///< the process that failed; -1: the one that reports it
  int64_t step = -1;           ///< the failed process's step; -1: unknown
  std::string operation = {};  ///< the failed process's operation, as Transfer names it; "": unknown
  int64_t checkpoint = -1;     ///< step of the last complete checkpoint; -1: unknown
  int64_t steps_lost = -1;     ///< steps begun since that checkpoint; -1: no run has begun
  double detected_s = 0;       ///< seconds since the last sign of life of the failed process
};

/// A job failure as an exception. All processes print its sentence unchanged.
class JobError final : public Error {
 public:
  explicit JobError(const JobFailure& failure) : Error(failure.code, failure.sentence) {}
};

/// Something that must end when the job fails.
class JobMember {
 public:
  virtual ~JobMember() = default;
  virtual void on_job_failure(const JobFailure& failure) = 0;
};

/// The failure that a process takes for the job's: the one reported by the lowest-numbered process known to have one.
struct KnownFailure {
  int process = 0;  ///< the process that reported it
  JobFailure failure;
};

}  // namespace dptrain
