#pragma once

#include <signal.h>

#include <chrono>
#include <thread>

#include "support/launch.h"

namespace dptrain::testing {

/// Stops a process for nine tenths of the time, until this object or the process ends.
class SlowedProcess {
 public:
  SlowedProcess(const Launch& launch, size_t process)
      : thread_([&launch, process](const std::stop_token& stop) {
          while (!stop.stop_requested() && !launch.has_ended(process)) {
            const bool has_started = launch.has_started(process);
            if (has_started) ::kill(launch.pid(process), SIGSTOP);
            std::this_thread::sleep_for(std::chrono::milliseconds(27));
            if (has_started) ::kill(launch.pid(process), SIGCONT);
            std::this_thread::sleep_for(std::chrono::milliseconds(3));
          }
        }) {}

 private:
  std::jthread thread_;
};

}  // namespace dptrain::testing
