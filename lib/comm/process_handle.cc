#include "comm/process_handle.h"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <string>
#include <utility>

namespace dptrain {
namespace {

/// Field `number` (3 or more, counted from 1) of /proc/PID/stat; 0 if there is no such process.
int64_t stat_field(int64_t pid, int number) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string line;
  std::getline(file, line, '\0');  // unlike an iterator, getline tolerates that reading fails for an ended process
  // The second field, the program's name, may contain anything.
  const size_t name_end = line.rfind(')');
  if (name_end == std::string::npos) return 0;
  std::istringstream fields(line.substr(name_end + 1));
  std::string field;
  for (int i = 3; i <= number; ++i) fields >> field;
  return fields ? std::stoll(field) : 0;
}

}  // namespace

int64_t process_start(int64_t pid) { return stat_field(pid, 22); }

int64_t parent_of_process(int64_t pid) { return stat_field(pid, 4); }

ProcessHandle::ProcessHandle(int64_t pid, int64_t start) {
#ifdef SYS_pidfd_open
  descriptor_ = static_cast<int>(::syscall(SYS_pidfd_open, static_cast<pid_t>(pid), 0U));
#endif
  // Another process may have got the pid before the descriptor was opened, but not after.
  start_ = process_start(pid);
  if (start_ != 0 && (start == 0 || start_ == start))
    pid_ = pid;
  else if (descriptor_ >= 0)
    ::close(std::exchange(descriptor_, -1));
}

ProcessHandle::~ProcessHandle() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

ProcessHandle::ProcessHandle(ProcessHandle&& other) noexcept
    : pid_(std::exchange(other.pid_, 0)), start_(other.start_), descriptor_(std::exchange(other.descriptor_, -1)) {}

ProcessHandle& ProcessHandle::operator=(ProcessHandle&& other) noexcept {
  std::swap(pid_, other.pid_);
  std::swap(start_, other.start_);
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

bool ProcessHandle::has_ended() const {
  if (descriptor_ < 0) return pid_ > 0 && process_start(pid_) != start_;
  pollfd handle = {.fd = descriptor_, .events = POLLIN, .revents = 0};
  return ::poll(&handle, 1, 0) > 0;
}

}  // namespace dptrain
