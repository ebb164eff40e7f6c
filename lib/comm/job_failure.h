#pragma once

#include <cstdint>
#include <string>

#include "base/error.h"

namespace dptrain {

/// A failure that ended a job, and in whose words.
struct JobFailure {
  ExitCode code = ExitCode::peer_lost;
  std::string sentence;
  int process = -1;            ///< that it is a failure of; -1: of the one that says so
  int64_t step = -1;           ///< that this process was in; -1: none is known
  std::string operation = {};  ///< that this process was in, as Transfer names it; "": none is known
  int64_t checkpoint = -1;     ///< step of the last whole checkpoint; -1: none is known
  int64_t steps_lost = -1;     ///< that were begun since; -1: no training has begun
  double detected_s = 0;       ///< from the last sign of life of that process
};

/// The same as an exception. Its sentence is said as it is, by all.
class JobError final : public Error {
 public:
  explicit JobError(const JobFailure& failure) : Error(failure.code, failure.sentence) {}
};

/// Who is to end where the job fails.
class JobMember {
 public:
  virtual ~JobMember() = default;
  virtual void on_job_failure(const JobFailure& failure) = 0;
};

/// What a process knows of a job's failures: that of the first process that is known to have one.
struct KnownFailure {
  int process = 0;  ///< that has failed
  JobFailure failure;
};

}  // namespace dptrain
