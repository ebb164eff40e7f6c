#pragma once

#include <string>
#include <string_view>

namespace dptrain {

// Who of several processes has written a line on stderr, which a launcher shows mixed: "[rank 2] " or "[process 3] "
// stands before each. The first process, which talks for all, and one that is alone write none.
//
// A program has one stderr, so this is one for it. Readers may be signal handlers.

/// From now on lines are those of this process of a job, by number; 0: not marked.
void mark_lines_as_of_process(int process);
/// The same, once it is known that the process has ranks: their first one.
void mark_lines_as_of_rank(int rank);

/// What stands before each line; "" where nothing does. Allocates nothing and waits for nobody.
std::string_view line_mark();
/// `text` with the mark before each of its lines. What follows the last end of a line is one, too.
std::string marked_lines(std::string_view text);

}  // namespace dptrain
