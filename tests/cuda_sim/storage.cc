#include "storage.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace dptrain::cuda_sim {
namespace {

constexpr std::size_t kAlignment = 256;

#if defined(__SANITIZE_ADDRESS__)
// Allocates the exact size, so that the sanitizer sees the first byte past the end.
bool is_mapped(std::size_t) { return false; }
void* map_ones(std::size_t) { return nullptr; }
void* allocate(std::size_t bytes) {
  void* memory = nullptr;
  return posix_memalign(&memory, kAlignment, bytes) == 0 ? memory : nullptr;
}
#else
std::size_t rounded(std::size_t bytes, std::size_t to) { return (bytes + to - 1) / to * to; }

// Large pieces are mostly not touched, since a GPU's allocator takes segments. They are copies of one piece of ones,
// made page by page when they are written.
constexpr std::size_t kPiece = std::size_t{1} << 22;

// An in-memory file with a piece of ones; negative if it can't be made.
int file_of_ones() {
  static const int file = [] {
    const int made = memfd_create("cuda_sim_ones", MFD_CLOEXEC);
    const std::vector<unsigned char> ones(kPiece, 0xff);
    return made >= 0 && write(made, ones.data(), kPiece) == static_cast<ssize_t>(kPiece) ? made : -1;
  }();
  return file;
}

bool is_mapped(std::size_t bytes) { return bytes >= kPiece / 4 && file_of_ones() >= 0; }

void* map_ones(std::size_t bytes) {
  const std::size_t all = rounded(bytes, static_cast<std::size_t>(sysconf(_SC_PAGESIZE)));
  void* const memory = mmap(nullptr, all, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  for (std::size_t at = 0; at < all; at += kPiece)
    if (mmap(static_cast<char*>(memory) + at, std::min(kPiece, all - at), PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, file_of_ones(), 0) == MAP_FAILED) {
      munmap(memory, all);
      return nullptr;
    }
  return memory;
}

void* allocate(std::size_t bytes) { return std::aligned_alloc(kAlignment, rounded(bytes, kAlignment)); }
#endif

}  // namespace

void* take_storage(std::size_t bytes) {
  if (is_mapped(bytes)) return map_ones(bytes);
  void* const memory = allocate(std::max<std::size_t>(bytes, 1));
  if (memory != nullptr) std::memset(memory, 0xff, bytes);
  return memory;
}

void give_back_storage(void* storage, std::size_t bytes) {
  if (is_mapped(bytes)) {
    munmap(storage, bytes);
    return;
  }
  std::memset(storage, 0xff, bytes);
  std::free(storage);
}

}  // namespace dptrain::cuda_sim
