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

/// Watches over this process while it joins its job. The calls that join have no deadline, ignore signals and don't
/// return if another process has died. The watch ends the process from a thread of its own, as ExitTimer does:
///   - with exit code 69 after `timeout_s`,
///   - with exit code 75 if another joining process of this host, or the launcher on this host, has died,
///   - with the exit code of another process of this host that has ended by itself,
///   - with exit code 128 plus the signal's number if a signal asks it to stop.
class JoinWatch {
 public:
  explicit JoinWatch(JoinOptions options);
  /// Ends the watch: the process has joined.
  ~JoinWatch();
  JoinWatch(const JoinWatch&) = delete;
  JoinWatch& operator=(const JoinWatch&) = delete;

 private:
  void watch();
  std::optional<JoinFailure> find_failure();
  std::optional<JoinFailure> find_stop();
  std::optional<JoinFailure> find_loss();
  /// Finds a process of this host that has ended by itself, for instance because its command line is wrong.
  std::optional<JoinFailure> find_end();
  /// Finds a process of this host that died before it left a mark.
  std::optional<JoinFailure> find_early_loss();
  [[noreturn]] void end(const JoinFailure& failure);

  const JoinOptions options_;
  const Clock::time_point begun_ = Clock::now();
  std::optional<Clock::time_point> asked_at_;     ///< when it was asked to stop
  std::optional<Clock::time_point> end_seen_at_;  ///< when another process was first seen to have ended by itself
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
