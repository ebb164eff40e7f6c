#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

#include "base/exit_code.h"

namespace dptrain {

/// Why a process can't join its job.
struct JoinFailure {
  ExitCode code = ExitCode::job_not_formed;
  std::string sentence;
  int64_t pid = 0;          ///< of the process on this host where the failure began
  double detected_s = 0;    ///< seconds until the failure was found, as far as known
  bool is_mistake = false;  ///< another process has refused what it was started with
};

struct JoinOptions {
  double timeout_s = 60;
  const std::atomic<int>* stop = nullptr;  ///< the signal that asks this process to stop, 0: none yet
  /// Called before the process ends, by the process that speaks for the job (join_marks.h). Not called if a signal
  /// asked the process to stop, nor for a mistake. It has two seconds.
  std::function<void(const JoinFailure&)> on_failure = {};
};

}  // namespace dptrain
