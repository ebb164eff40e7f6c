#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <tuple>

namespace dptrain {

/// Where a caching allocator gets its memory: malloc, cudaMalloc, or address space only (meta_device.h).
class MemorySource {
 public:
  virtual ~MemorySource() = default;
  /// Returns memory of `bytes` (a multiple of the alignment, aligned to it), or null if there is none left.
  virtual void* take(int64_t bytes) = 0;
  virtual void give_back(void* memory, int64_t bytes) noexcept = 0;
  /// Counts `bytes` more as in use by all that share this memory. Returns false, and counts nothing, if there is too
  /// little left.
  virtual bool claim(int64_t) { return true; }
  virtual void give_up(int64_t) noexcept {}
  /// Bytes that can be claimed in all. Empty if only an attempt to take memory shows that.
  virtual std::optional<int64_t> claimable_bytes() const { return std::nullopt; }
  /// Whether memory costs nothing while it has never been written, or was discarded.
  virtual bool costs_once_written() const { return false; }
  /// Notes that nobody needs the content of this part of the memory.
  virtual void discard(void*, int64_t) noexcept {}

  /// The alignment of every block: a power of two, 64 at least.
  virtual int64_t alignment() const { return 64; }
  /// Blocks of up to this size are kept apart from larger ones.
  virtual int64_t most_small_bytes() const { return int64_t{1} << 20; }
  /// How many bytes to take at once if `wanted` bytes are needed; at least `wanted`.
  virtual int64_t segment_bytes(int64_t wanted) const { return wanted; }
};

/// Cuts segments of a source into blocks. A block that is given back joins its free neighbors. A request takes the
/// smallest free block that it fits in, and leaves the rest of it free. If memory costs nothing until it is written,
/// the request takes the smallest such block of the oldest segment with room. That leaves the newest segment unwritten
/// for as long as possible. Sizes are multiples of the source's alignment. Not thread-safe.
class MemoryArena {
 public:
  explicit MemoryArena(MemorySource& source) : source_(source) {}
  MemoryArena(const MemoryArena&) = delete;
  MemoryArena& operator=(const MemoryArena&) = delete;

  /// Returns a block of exactly `bytes`, or null if the source has no memory left.
  void* take(int64_t bytes);
  void give_back(void* memory);
  /// Returns segments without a block in use to the source, and lets the source discard the free blocks of all others.
  void release_free() noexcept;

  /// How often memory was taken from the source.
  int64_t source_calls() const { return source_calls_; }

 private:
  struct Block {
    int64_t bytes = 0;
    bool free = false;
    bool begins_segment = false;
    int64_t age = 0;  ///< of its segment: the first has 1; 0 if the age makes no difference
  };
  using Blocks = std::map<std::byte*, Block>;

  /// By age, then size, then address.
  using Free = std::set<std::tuple<int64_t, int64_t, std::byte*>>;
  static Free::value_type place_of(const Blocks::value_type& block) {
    return {block.second.age, block.second.bytes, block.first};
  }

  bool take_segment(int64_t bytes);
  Free::iterator find_free(int64_t bytes) const;
  void mark_free(Blocks::iterator block);
  void mark_taken(Blocks::iterator block);
  /// Joins a block with the next one. Both must be free.
  void join_next(Blocks::iterator block);

  MemorySource& source_;
  Blocks blocks_;  ///< by address
  Free free_;
  int64_t source_calls_ = 0;
};

}  // namespace dptrain
