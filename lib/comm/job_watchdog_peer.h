#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "base/clock.h"
#include "comm/job_progress.h"
#include "comm/job_watchdog.h"
#include "comm/process_handle.h"
#include "comm/process_wire.h"

// What a watchdog knows of each other process. For job_watchdog*.cc only.

namespace dptrain {

/// A heartbeat.
struct JobWatchdog::Beat {
  int64_t number = 0;
  int64_t step = 0;
  int64_t checkpoint = -1;
  JobPhase phase = JobPhase::start;
  int32_t is_last = 0;                  ///< the sender has come to its regular end
  int32_t signal = 0;                   ///< the signal that asks the sender to stop
  std::array<char, 96> operation = {};  ///< the latest one, ends in 0
};

struct JobWatchdog::Peer {
  int process = 0;
  bool is_linked = false;
  ProcessHandle handle;  ///< set if the process is on this host

  // Used by the wire's thread only:
  std::array<std::byte, sizeof(Beat)> in{};
  std::array<std::byte, sizeof(Beat)> out{};
  std::unique_ptr<WireMessage> receive;
  std::unique_ptr<WireMessage> send;
  int64_t sent = 0;
  int64_t told_checkpoint = -1;
  int told_signal = 0;
  bool last_is_sent = false;

  Clock::time_point heard_at;   ///< time of the latest heartbeat
  Clock::time_point silent_at;  ///< when the silence began that is reported once it is over
  Beat last;
  bool goodbye_sent = false;
  bool goodbye_heard = false;
  bool is_cut = false;  ///< a message was lost: none is sent to it or received from it any more
  std::optional<Clock::time_point> ended_at;

  /// Whether it needs nothing more from this process. After its own goodbye it has this process's goodbye, or can't get
  /// it.
  bool has_left() const { return goodbye_sent || is_cut || ended_at; }
};

}  // namespace dptrain
