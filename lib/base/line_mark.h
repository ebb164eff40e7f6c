#pragma once

#include <string>
#include <string_view>

namespace dptrain {

// Marks that show which process wrote a line on stderr, because a launcher mixes the lines of several processes. Each
// line begins with "[rank 2] " or "[process 3] ". The first process, which speaks for all, writes no mark, and neither
// does a process that is alone.
//
// A program has one stderr, so there is one mark for the program. Signal handlers may read it.

/// Marks lines from now on with this process's number in its job; 0: no mark.
void mark_lines_as_of_process(int process);
/// Marks lines with the process's first rank instead, once it is known that the process has ranks; 0: no mark.
void mark_lines_as_of_rank(int rank);

/// The mark in front of each line; "" if there is none. Doesn't allocate or block.
std::string_view line_mark();
/// `text` with the mark in front of each of its lines. Text behind the last newline counts as a line, too.
std::string marked_lines(std::string_view text);

}  // namespace dptrain
