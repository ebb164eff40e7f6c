#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <utility>

namespace dptrain {

/// Where a caching allocator gets its memory from: malloc, cudaMalloc, nowhere (`meta`).
class MemorySource {
 public:
  virtual ~MemorySource() = default;
  /// Memory of `bytes` (a multiple of the alignment, aligned to it), or null where there is none left.
  virtual void* take(int64_t bytes) = 0;
  virtual void give_back(void* memory, int64_t bytes) noexcept = 0;

  /// Of every block: a power of two, 64 at least.
  virtual int64_t alignment() const { return 64; }
  /// What is best taken at once where `wanted` bytes are needed: not less.
  virtual int64_t segment_bytes(int64_t wanted) const { return wanted; }
};

/// Cuts segments of a source into blocks. A block that is given back joins its free neighbors; a request takes the
/// smallest free block that it fits in, and leaves the rest of it. Sizes are multiples of the source's alignment. Not
/// safe for several threads at once.
class MemoryArena {
 public:
  explicit MemoryArena(MemorySource& source) : source_(source) {}
  MemoryArena(const MemoryArena&) = delete;
  MemoryArena& operator=(const MemoryArena&) = delete;

  /// A block of exactly `bytes`; null where the source has no memory left.
  void* take(int64_t bytes);
  void give_back(void* memory);
  /// Returns the segments that no block is taken from to the source.
  void release_free() noexcept;

  /// How often memory was taken from the source.
  int64_t source_calls() const { return source_calls_; }

 private:
  struct Block {
    int64_t bytes = 0;
    bool free = false;
    bool begins_segment = false;
  };
  using Blocks = std::map<std::byte*, Block>;

  bool take_segment(int64_t bytes);
  void mark_free(Blocks::iterator block);
  void mark_taken(Blocks::iterator block);
  /// Joins a block with the one behind it, both free.
  void join_next(Blocks::iterator block);

  MemorySource& source_;
  Blocks blocks_;                                  ///< by address
  std::set<std::pair<int64_t, std::byte*>> free_;  ///< the free ones by size, then address
  int64_t source_calls_ = 0;
};

}  // namespace dptrain
