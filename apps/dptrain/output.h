#pragma once

#include <limits>
#include <string>

namespace dptrain::app {

/// Opens /dev/null for each of stdin, stdout and stderr that is closed, so that no file of ours takes its number and
/// gets what was meant for a terminal. Writing to such a stdout still fails, and so does writing to one that nobody
/// reads any more.
void prepare_standard_streams();

/// Writes `text` to stdout and flushes it. Throws 74 where it can't be written.
void write_output(const std::string& text);

/// Writes `text` to stderr, each line marked as this process's (base/line_mark.h); a stderr that can't be written is no
/// reason to stop.
void write_message(const std::string& text) noexcept;

/// What is wide enough for every line.
inline constexpr int kAnyWidth = std::numeric_limits<int>::max();

/// Columns of what is printed: COLUMNS, where the environment has it, else those of the terminal behind stdout or
/// stderr; `otherwise` where there is none.
int terminal_width(int stream, int otherwise = 80);

/// Tells of a damaged checkpoint that is passed over.
void tell_of_damage(const std::string& damage);

}  // namespace dptrain::app
