#include "base/file_progress.h"

#include <atomic>

namespace dptrain {
namespace {

std::atomic<int64_t> pieces = 0;

}  // namespace

int64_t file_pieces() { return pieces.load(std::memory_order_relaxed); }

void count_file_piece() { pieces.fetch_add(1, std::memory_order_relaxed); }

}  // namespace dptrain
