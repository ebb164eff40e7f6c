#include "comm/exit_timer.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>
#include <utility>

#include "base/clock.h"
#include "base/line_mark.h"
#include "comm/job.h"

namespace dptrain {
namespace {

/// How long to wait for a reader of stderr that has stopped reading.
constexpr double kRead_s = 1;

/// Bypasses the C library's buffers, because the thread that hangs may hold their locks. Doesn't wait for a reader that
/// never reads.
void write_to_stderr(std::string_view text) {
  const auto deadline = deadline_in(kRead_s);
  while (!text.empty()) {
    pollfd out{.fd = STDERR_FILENO, .events = POLLOUT, .revents = 0};
    if (::poll(&out, 1, 100) <= 0) {
      if (Clock::now() >= deadline) return;
      continue;
    }
    const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
    if (written > 0)
      text.remove_prefix(static_cast<size_t>(written));
    else if (errno != EINTR)
      return;
  }
}

[[noreturn]] void end_marked_process(ExitCode code, const std::string& sentence, const std::string& mark) {
  // Write the line first. It has a deadline; the launcher's file may be on a disk that never answers.
  write_to_stderr(fmt::format("{}dptrain: {}\n", mark, sentence));
  tell_launcher_of_exit(static_cast<int>(code), sentence);
  ::_exit(static_cast<int>(code));
}

}  // namespace

void end_process(ExitCode code, const std::string& sentence) {
  end_marked_process(code, sentence, std::string(line_mark()));
}

ExitTimer::ExitTimer(double timeout_s, ExitCode code, std::string sentence) {
  const std::string mark(line_mark());
  thread_ = std::thread([this, deadline = deadline_in(timeout_s), code, mark, sentence = std::move(sentence)] {
    std::unique_lock lock(mutex_);
    if (stopping_.wait_until(lock, deadline, [this] { return stopped_; })) return;
    end_marked_process(code, sentence, mark);
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
