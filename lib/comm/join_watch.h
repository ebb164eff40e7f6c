#pragma once

#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>

#include "base/clock.h"
#include "comm/join_marks.h"
#include "comm/join_options.h"
#include "comm/launched_siblings.h"
#include "comm/process_handle.h"

namespace dptrain {

/// Watches over this process while it joins its job: in calls that know no deadline, heed no signal and don't return
/// where another process has died. Ends it, from a thread of its own, with 69 after `timeout_s`, with 75 where another
/// process of this host has died on the same way, or what launched them here, and with 128 and the number of a signal
/// that asks it to stop; as ExitTimer does.
class JoinWatch {
 public:
  explicit JoinWatch(JoinOptions options);
  /// The process has joined.
  ~JoinWatch();
  JoinWatch(const JoinWatch&) = delete;
  JoinWatch& operator=(const JoinWatch&) = delete;

 private:
  void watch();
  std::optional<JoinFailure> find_failure();
  std::optional<JoinFailure> find_stop();
  std::optional<JoinFailure> find_loss();
  /// Of a process of this host that had not come so far as to leave a mark.
  std::optional<JoinFailure> find_early_loss();
  [[noreturn]] void end(const JoinFailure& failure);

  const JoinOptions options_;
  const Clock::time_point begun_ = Clock::now();
  std::optional<Clock::time_point> asked_at_;  ///< to stop
  const int64_t launcher_pid_;
  LaunchedSiblings siblings_;
  JoinMarks marks_;
  const ProcessHandle launcher_;
  const bool launcher_is_gone_;
  std::mutex mutex_;
  std::condition_variable stopping_;
  bool stopped_ = false;
  std::thread thread_;
};

}  // namespace dptrain
