#pragma once

#include <cstdint>

namespace dptrain {

/// When a process of this host was started, in ticks since the host's boot: with its pid it tells a process from all
/// others of the host. 0 where there is none that can be seen.
int64_t process_start(int64_t pid);

/// 0 where there is none that can be seen.
int64_t parent_of_process(int64_t pid);

/// A process of this host whose end can be waited for, whoever's child it is.
class ProcessHandle {
 public:
  /// None.
  ProcessHandle() = default;
  /// The process with this pid. None where it can't be seen, where it isn't the one that was started then, and on a
  /// kernel before 5.3. `start`: as process_start has it; 0: whoever has the pid now.
  explicit ProcessHandle(int64_t pid, int64_t start = 0);
  ~ProcessHandle();
  ProcessHandle(ProcessHandle&& other) noexcept;
  ProcessHandle& operator=(ProcessHandle&& other) noexcept;

  /// For poll(): readable once the process has ended, also before its parent has asked for it. -1: none.
  int descriptor() const { return descriptor_; }

 private:
  int descriptor_ = -1;
};

}  // namespace dptrain
