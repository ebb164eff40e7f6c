#include "output.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <system_error>

#include "base/error.h"
#include "base/line_mark.h"

namespace dptrain::app {
namespace {

std::atomic<int> write_error = 0;  ///< errno of the last write that failed

}  // namespace

void prepare_standard_streams() {
  // If the reader of the output has gone, the write must fail instead of ending the process.
  ::signal(SIGPIPE, SIG_IGN);
  // open() takes the lowest free number, and all lower streams are open already.
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (::fcntl(stream, F_GETFD) < 0) (void)::open("/dev/null", O_RDONLY);
}

void write_output(const std::string& text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0) return;
  write_error = errno;
  throw Error(ExitCode::io, unwritten_output());
}

std::string unwritten_output() {
  const int error = write_error;
  return error == EPIPE ? "standard output: its reader has gone"
                        : fmt::format("standard output: could not write: {}", std::generic_category().message(error));
}

void write_message(const std::string& text) noexcept {
  const std::string marked = line_mark().empty() ? text : marked_lines(text);
  std::fwrite(marked.data(), 1, marked.size(), stderr);
  std::fflush(stderr);
}

int terminal_width(int stream, int otherwise) {
  const char* columns = std::getenv("COLUMNS");
  // strtoll saturates instead of overflowing.
  const int64_t wanted = columns != nullptr ? std::strtoll(columns, nullptr, 10) : 0;
  if (wanted > 0) return static_cast<int>(std::min(wanted, int64_t{kAnyWidth}));
  winsize size{};
  return ::ioctl(stream, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : otherwise;
}

void tell_of_damage(const std::string& damage) { write_message(fmt::format("dptrain: warning: {}\n", damage)); }

}  // namespace dptrain::app
