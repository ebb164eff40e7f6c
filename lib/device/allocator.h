#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "device/memory_arena.h"
#include "device/memory_purpose.h"

namespace dptrain {

/// The pool that memory belongs to, for as long as the allocator holds it. A recorded step uses the memory that it was
/// recorded with, even after that memory was freed.
enum class MemoryPool { common, recorded };

/// Keeps freed memory for later requests, since a training step requests the same sizes again and again. Counts bytes
/// in use by purpose and remembers their peaks. Safe to call from every thread.
class CachingAllocator {
 public:
  /// `name` is the device's, for messages. `limit_bytes` is the most that may be in use at once; 0 means no limit.
  CachingAllocator(std::string name, MemorySource& source, int64_t limit_bytes = 0);
  CachingAllocator(const CachingAllocator&) = delete;
  CachingAllocator& operator=(const CachingAllocator&) = delete;
  ~CachingAllocator();

  struct Block {
    void* memory = nullptr;
    int64_t bytes = 0;
    MemoryPool pool = MemoryPool::common;
  };

  /// Returns a block of at least `bytes` bytes, aligned as the source aligns it. If memory runs out, throws an error
  /// with exit code 71 that says how much was wanted and how much is in use.
  Block allocate(int64_t bytes, MemoryPurpose purpose);
  void free(Block block, MemoryPurpose purpose) noexcept;

  /// Takes blocks from this pool from now on. Returns the pool used before. Only one thread may allocate while the pool
  /// of recorded work is in use.
  MemoryPool use(MemoryPool pool);
  /// Keeps the blocks of recorded work for good, because work that uses them has been recorded.
  void keep_recorded();
  bool keeps_recorded() const;

  /// Runs `body`. Returns the most bytes in use at once meanwhile, by purpose.
  MemoryCounts peak_during(const std::function<void()>& body);
  /// Updates the peak as if this much had been in use. Recorded work uses memory without allocating it.
  void note_use(const MemoryCounts& counts);

  /// How often memory was taken from the source. It stays the same once all sizes have occurred.
  int64_t source_calls() const;
  /// Bytes that the limit leaves; the largest number if there is no limit.
  int64_t room_bytes() const;
  /// Bytes in use now.
  MemoryCounts in_use() const;
  /// The most bytes in use at once since the last reset.
  int64_t peak_bytes() const;
  /// Bytes in use at the moment of the peak, by purpose.
  MemoryCounts at_peak() const;
  /// Sets the peak to what is in use now.
  void reset_peak();
  /// Returns segments without a block in use to the source. Also returns the pages of other free blocks if the source
  /// can discard them.
  void release_cached() noexcept;
  /// Calls `settle` before every release of memory from now on. A device may still read freed memory: it runs its work
  /// in order, so only a later write has to wait. If `settle` returns null, the device still may read, and nothing is
  /// released. Otherwise the returned object lives until the release is done. Called with the allocator locked.
  using Settle = std::function<std::shared_ptr<void>()>;
  void settle_before_release(Settle settle);

 private:
  /// Small and large blocks are kept apart, so that a small one never keeps two large ones from joining.
  struct Arenas {
    explicit Arenas(MemorySource& source) : small(source), large(source) {}
    MemoryArena small, large;
  };

  Arenas& arenas(MemoryPool pool) { return pool == MemoryPool::recorded ? recorded_ : common_; }
  MemoryArena& arena_of(MemoryPool pool, int64_t bytes) {
    return bytes > source_.most_small_bytes() ? arenas(pool).large : arenas(pool).small;
  }
  void release_cached_locked() noexcept;
  void raise_peak(const MemoryCounts& counts);

  mutable std::mutex mutex_;
  std::string name_;
  MemorySource& source_;
  Settle settle_;
  int64_t limit_bytes_;
  MemoryPool pool_ = MemoryPool::common;
  bool keep_recorded_ = false;
  Arenas common_, recorded_;
  int64_t total_in_use_ = 0;
  MemoryCounts in_use_;
  int64_t peak_bytes_ = 0;
  MemoryCounts at_peak_;
  std::optional<MemoryCounts> window_peak_;  ///< while peak_during runs
};

/// Takes blocks from a pool as long as it lives.
class PoolInUse {
 public:
  PoolInUse(CachingAllocator& allocator, MemoryPool pool) : allocator_(allocator), before_(allocator.use(pool)) {}
  ~PoolInUse() { allocator_.use(before_); }
  PoolInUse(const PoolInUse&) = delete;
  PoolInUse& operator=(const PoolInUse&) = delete;

 private:
  CachingAllocator& allocator_;
  MemoryPool before_;
};

}  // namespace dptrain
