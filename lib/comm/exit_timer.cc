#include "comm/exit_timer.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>
#include <utility>

#include "base/clock.h"
#include "base/line_mark.h"
#include "comm/job.h"

namespace dptrain {
namespace {

/// Past the C library's buffers, whose locks the thread that hangs may hold.
void write_to_stderr(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
    if (written > 0)
      text.remove_prefix(static_cast<size_t>(written));
    else if (errno != EINTR)
      return;
  }
}

}  // namespace

ExitTimer::ExitTimer(double timeout_s, ExitCode code, std::string sentence) {
  const std::string line = marked_lines(fmt::format("dptrain: {}\n", sentence));
  thread_ = std::thread([this, deadline = deadline_in(timeout_s), code, line, sentence = std::move(sentence)] {
    std::unique_lock lock(mutex_);
    if (stopping_.wait_until(lock, deadline, [this] { return stopped_; })) return;
    write_to_stderr(line);
    tell_launcher_of_exit(static_cast<int>(code), sentence);
    ::_exit(static_cast<int>(code));
  });
}

ExitTimer::~ExitTimer() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  stopping_.notify_one();
  thread_.join();
}

}  // namespace dptrain
