#pragma once

#include <cstdint>

namespace dptrain {

/// When a process of this host was started, in ticks since the host's boot: with its pid it tells a process from all
/// others of the host. 0 where there is none that can be seen.
int64_t process_start(int64_t pid);

/// 0 where there is none that can be seen.
int64_t parent_of_process(int64_t pid);

/// A process of this host, whoever's child it is, that can be asked whether it has ended: by pidfd_open(2), or on a
/// kernel before 5.3 by /proc.
class ProcessHandle {
 public:
  /// None.
  ProcessHandle() = default;
  /// The process with this pid that was started then, as process_start has it; 0: whoever has the pid now. None where
  /// it can't be seen.
  explicit ProcessHandle(int64_t pid, int64_t start = 0);
  ~ProcessHandle();
  ProcessHandle(ProcessHandle&& other) noexcept;
  ProcessHandle& operator=(ProcessHandle&& other) noexcept;

  explicit operator bool() const { return pid_ > 0; }
  /// Whether it has ended, also before its parent has asked for that. Doesn't block.
  bool has_ended() const;

 private:
  int64_t pid_ = 0;
  int64_t start_ = 0;
  int descriptor_ = -1;
};

}  // namespace dptrain
