#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "base/exit_code.h"

namespace dptrain {

/// Ends the process where what it stands around is not over in time: a call that can't be given a deadline. Blocks only
/// to begin and to end its thread.
class ExitTimer {
 public:
  /// After `timeout_s` the process ends with `code`, from the timer's thread, having written `dptrain: <sentence>` to
  /// stderr, marked as of now (base/line_mark.h), and told the launcher (comm/job.h). Nothing else of the process runs
  /// any more: no destructor, no handler of exit.
  ExitTimer(double timeout_s, ExitCode code, std::string sentence);
  /// The same with a sentence that is made then, on the timer's thread.
  ExitTimer(double timeout_s, ExitCode code, std::function<std::string()> sentence);
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
