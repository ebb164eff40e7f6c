#include "stop_signals.h"

#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <initializer_list>
#include <string_view>

#include "base/line_mark.h"

namespace dptrain::app {
namespace {

// A signal handler can only use static storage.
train::StopSignal stop_signal = 0;
static_assert(train::StopSignal::is_always_lock_free);

std::atomic<int64_t> first_at_ms = 0;
std::atomic<bool> in_job = false;
constexpr std::array kStopSignals = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};
/// A launcher's copy of one Ctrl-C comes sooner than a user's second Ctrl-C.
constexpr int64_t kCopyComesWithin_ms = 300;

int64_t now_ms() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1000000;
}

/// Prints a line with one system call, as a signal handler may. The line begins after the characters that a terminal
/// shows for Ctrl-C.
void say(std::initializer_list<std::string_view> parts) {
  std::array<char, 256> line = {'\n'};
  size_t length = 1;
  const auto add = [&](std::string_view text) { length += text.copy(line.data() + length, line.size() - length); };
  add(line_mark());
  for (const std::string_view part : parts) add(part);
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), length);
}

[[noreturn]] void leave(int signal) {
  say({"dptrain: stopped at once by a second ", signal_name(signal), "; nothing was saved\n"});
  ::_exit(static_cast<int>(exit_code_of_signal(signal)));
}

/// The signal that was meant. mpirun delays some signals or turns them into SIGTERM, but passes on SIGUSR1 and SIGUSR2
/// at once, so these stand for them.
int meant_by(int signal) {
  if (signal == SIGUSR1) return SIGINT;
  return signal == SIGUSR2 ? SIGTERM : signal;
}

extern "C" void note_signal(int received) {
  const int error_before = errno, signal = meant_by(received);
  int64_t never = 0;
  if (first_at_ms.compare_exchange_strong(never, now_ms())) {
    int none = 0;
    stop_signal.compare_exchange_strong(none, signal);
    say({"dptrain: stopping after the current step; a second Ctrl-C",
         in_job ? std::string_view() : std::string_view(" or SIGTERM"), " stops at once and saves nothing\n"});
  } else if (signal != SIGHUP && !(in_job && received == SIGTERM) && now_ms() - first_at_ms > kCopyComesWithin_ms) {
    // A closing terminal doesn't mean that the user is impatient.
    leave(signal);
  }
  errno = error_before;
}

}  // namespace

train::StopSignal& watch_stop_signals() {
  struct sigaction action {};
  action.sa_handler = note_signal;
  action.sa_flags = SA_RESTART;
  ::sigemptyset(&action.sa_mask);
  for (const int signal : kStopSignals) ::sigaction(signal, &action, nullptr);
  // If a file grows over a limit, the write must fail instead of ending the process.
  ::signal(SIGXFSZ, SIG_IGN);
  return stop_signal;
}

void take_second_sigterm_for_the_first() { in_job = true; }

void ignore_stop_signals() {
  for (const int signal : kStopSignals) ::signal(signal, SIG_IGN);
}

}  // namespace dptrain::app
