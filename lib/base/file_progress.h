#pragma once

#include <cstdint>

namespace dptrain {

/// How many pieces of files all threads of this process have read or written so far. Since file access may take any
/// time, a watchdog uses the count to see whether it still advances.
int64_t file_pieces();

/// Counts one more piece.
void count_file_piece();

}  // namespace dptrain
