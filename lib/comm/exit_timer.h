#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include "base/exit_code.h"

namespace dptrain {

/// Ends the process with `code`, having written `dptrain: <sentence>` to stderr, marked (base/line_mark.h), and told
/// the launcher (comm/job.h). Nothing else of the process runs any more: no destructor, no handler of exit. From any
/// thread.
[[noreturn]] void end_process(ExitCode code, const std::string& sentence);

/// Ends the process where what it stands around is not over in time: a call that can't be given a deadline. Blocks only
/// to begin and to end its thread.
class ExitTimer {
 public:
  /// After `timeout_s` the process ends as end_process has it, from the timer's thread, marked as of now.
  ExitTimer(double timeout_s, ExitCode code, std::string sentence);
  /// Stops it.
  ~ExitTimer();
  ExitTimer(const ExitTimer&) = delete;
  ExitTimer& operator=(const ExitTimer&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable stopping_;
  bool stopped_ = false;
  std::thread thread_;
};

}  // namespace dptrain
