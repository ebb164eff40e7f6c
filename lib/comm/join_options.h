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
  int64_t pid = 0;        ///< of the process of this host where it began
  double detected_s = 0;  ///< after that, as far as is known
};

struct JoinOptions {
  double timeout_s = 60;
  const std::atomic<int>* stop = nullptr;  ///< the signal that asks this process to stop, 0 as long as there is none
  /// Called before the process ends, by the one that speaks for the others (join_marks.h); not where a signal has
  /// asked for that. Is given two seconds.
  std::function<void(const JoinFailure&)> on_failure = {};
};

}  // namespace dptrain
