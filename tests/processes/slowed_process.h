#pragma once

#include <signal.h>

#include <chrono>
#include <thread>

#include "support/launch.h"

namespace dptrain::testing {

/// Stopped for nine tenths of the time, until the object ends or the process has.
class SlowedProcess {
 public:
  SlowedProcess(const Launch& launch, size_t process)
      : thread_([&launch, process](const std::stop_token& stop) {
          while (!stop.stop_requested() && !launch.has_ended(process)) {
            const pid_t pid = launch.pid(process);
            if (pid > 0) ::kill(pid, SIGSTOP);
            std::this_thread::sleep_for(std::chrono::milliseconds(27));
            if (pid > 0) ::kill(pid, SIGCONT);
            std::this_thread::sleep_for(std::chrono::milliseconds(3));
          }
        }) {}

 private:
  std::jthread thread_;
};

}  // namespace dptrain::testing
