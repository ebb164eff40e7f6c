#pragma once

#include <limits>
#include <string>

namespace dptrain::app {

/// Opens /dev/null for each of stdin, stdout and stderr that is closed, so that no other file gets its descriptor and
/// receives output meant for a terminal. Writing to such a stdout still fails, as does writing to a pipe that nobody
/// reads any more.
void prepare_standard_streams();

/// Why the last write to standard output failed: "standard output: its reader has gone".
std::string unwritten_output();

/// Writes `text` to stdout and flushes it. Throws 74 if writing fails.
void write_output(const std::string& text);

/// Writes `text` to stderr, each line marked with this process (base/line_mark.h). Ignores write errors.
void write_message(const std::string& text) noexcept;

/// A width that fits every line.
inline constexpr int kAnyWidth = std::numeric_limits<int>::max();

/// Columns available for output: COLUMNS if the environment sets it, else the width of the terminal behind stdout or
/// stderr; `otherwise` if there is no terminal.
int terminal_width(int stream, int otherwise = 80);

/// Prints a warning with this sentence about a damaged checkpoint.
void tell_of_damage(const std::string& damage);

}  // namespace dptrain::app
