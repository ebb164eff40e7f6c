#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include "base/exit_code.h"

namespace dptrain {

/// Ends the process with `code`. Before that it writes `dptrain: <sentence>` to stderr, with the line mark
/// (base/line_mark.h), and tells the launcher (comm/job.h). Nothing else of the process runs: no destructor and no exit
/// handler. May be called on any thread.
[[noreturn]] void end_process(ExitCode code, const std::string& sentence);

/// Ends the process if a call takes too long that can't be given a deadline. The timer lives around that call. Blocks
/// only to start and to join its thread.
class ExitTimer {
 public:
  /// Starts the timer. After `timeout_s` its thread ends the process as end_process does, with the line mark of now.
  ExitTimer(double timeout_s, ExitCode code, std::string sentence);
  /// Stops the timer.
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
