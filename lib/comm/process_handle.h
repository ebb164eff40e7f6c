#pragma once

#include <cstdint>

namespace dptrain {

/// When a process of this host was started, in ticks since the host's boot. Together with the pid it identifies a
/// process on the host. 0 if no such process can be seen.
int64_t process_start(int64_t pid);

/// The pid of a process's parent; 0 if no such process can be seen.
int64_t parent_of_process(int64_t pid);

/// A process of this host, whoever's child it is, that can be asked whether it has ended. Uses pidfd_open(2), or /proc
/// on a kernel before 5.3.
class ProcessHandle {
 public:
  /// Refers to no process.
  ProcessHandle() = default;
  /// Refers to the process with this pid and this start (see process_start). With `start` 0 it takes whatever process
  /// has the pid now. Refers to none if the process can't be seen.
  explicit ProcessHandle(int64_t pid, int64_t start = 0);
  ~ProcessHandle();
  ProcessHandle(ProcessHandle&& other) noexcept;
  ProcessHandle& operator=(ProcessHandle&& other) noexcept;

  explicit operator bool() const { return pid_ > 0; }
  /// Whether the process has ended, even if its parent has not waited for it yet. Doesn't block.
  bool has_ended() const;

 private:
  int64_t pid_ = 0;
  int64_t start_ = 0;
  int descriptor_ = -1;
};

}  // namespace dptrain
