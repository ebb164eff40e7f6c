#pragma once

#include <cstdint>

namespace dptrain {

/// Pieces of files that this process has read or written so far, whatever thread did. Who doesn't know how long that
/// may take can tell by it whether it goes on.
int64_t file_pieces();

/// One more.
void count_file_piece();

}  // namespace dptrain
