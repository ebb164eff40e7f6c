#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <tuple>

namespace dptrain {

/// Where a caching allocator gets its memory from: malloc, cudaMalloc, nowhere (meta_device.h).
class MemorySource {
 public:
  virtual ~MemorySource() = default;
  /// Memory of `bytes` (a multiple of the alignment, aligned to it), or null where there is none left.
  virtual void* take(int64_t bytes) = 0;
  virtual void give_back(void* memory, int64_t bytes) noexcept = 0;
  /// Counts `bytes` more as in use, by all that share this memory; false where it hasn't as many, and nothing is
  /// counted.
  virtual bool claim(int64_t) { return true; }
  virtual void give_up(int64_t) noexcept {}
  /// What can be claimed in all; nothing where only taking it shows.
  virtual std::optional<int64_t> claimable_bytes() const { return std::nullopt; }
  /// Whether memory that was never written, or was discarded, costs nothing.
  virtual bool costs_once_written() const { return false; }
  /// Nobody needs what this part of taken memory holds.
  virtual void discard(void*, int64_t) noexcept {}

  /// Of every block: a power of two, 64 at least.
  virtual int64_t alignment() const { return 64; }
  /// Blocks of up to this size lie apart from larger ones.
  virtual int64_t most_small_bytes() const { return int64_t{1} << 20; }
  /// What is best taken at once where `wanted` bytes are needed: not less.
  virtual int64_t segment_bytes(int64_t wanted) const { return wanted; }
};

/// Cuts segments of a source into blocks. A block that is given back joins its free neighbors; a request takes the
/// smallest free block that it fits in, and leaves the rest of it. Where memory costs nothing until it is written, that
/// is the smallest one in the oldest segment with room, so that the newest stays as it came for as long as it can.
/// Sizes are multiples of the source's alignment. Not safe for several threads at once.
class MemoryArena {
 public:
  explicit MemoryArena(MemorySource& source) : source_(source) {}
  MemoryArena(const MemoryArena&) = delete;
  MemoryArena& operator=(const MemoryArena&) = delete;

  /// A block of exactly `bytes`; null where the source has no memory left.
  void* take(int64_t bytes);
  void give_back(void* memory);
  /// Returns the segments that no block is taken from to the source, and lets it discard the free blocks of others.
  void release_free() noexcept;

  /// How often memory was taken from the source.
  int64_t source_calls() const { return source_calls_; }

 private:
  struct Block {
    int64_t bytes = 0;
    bool free = false;
    bool begins_segment = false;
    int64_t age = 0;  ///< of its segment: the first has 1; 0 where it makes no difference
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
  /// Joins a block with the one behind it, both free.
  void join_next(Blocks::iterator block);

  MemorySource& source_;
  Blocks blocks_;  ///< by address
  Free free_;
  int64_t source_calls_ = 0;
};

}  // namespace dptrain
