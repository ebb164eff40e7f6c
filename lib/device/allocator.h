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

/// Memory that never changes sides: a recorded step goes on using what it was recorded with, free or not.
enum class MemoryPool { common, recorded };

/// Keeps what is freed for the next requests: a training step asks for the same sizes again and again. Counts bytes in
/// use by purpose and remembers their peaks. Safe to call from every thread.
class CachingAllocator {
 public:
  /// `name`: of the device, for messages. `limit_bytes`: what may be in use at once; 0 means no limit.
  CachingAllocator(std::string name, MemorySource& source, int64_t limit_bytes = 0);
  CachingAllocator(const CachingAllocator&) = delete;
  CachingAllocator& operator=(const CachingAllocator&) = delete;
  ~CachingAllocator();

  struct Block {
    void* memory = nullptr;
    int64_t bytes = 0;
    MemoryPool pool = MemoryPool::common;
  };

  /// A block of at least `bytes` bytes, aligned as the source does it. Throws 71, naming what is wanted and held, where
  /// memory runs out.
  Block allocate(int64_t bytes, MemoryPurpose purpose);
  void free(Block block, MemoryPurpose purpose) noexcept;

  /// From here on blocks come from this pool; returns the one before. One thread allocates while it is the pool of
  /// recorded work.
  MemoryPool use(MemoryPool pool);
  /// Keeps the blocks of recorded work for good: work that uses them has been recorded.
  void keep_recorded();
  bool keeps_recorded() const;

  /// The most in use at once while `body` runs, by purpose.
  MemoryCounts peak_during(const std::function<void()>& body);
  /// As if this much had been in use: recorded work uses memory without allocating it.
  void note_use(const MemoryCounts& counts);

  /// How often memory was taken from the source: what steps of known sizes no longer do.
  int64_t source_calls() const;
  /// Bytes that the limit has room for; the largest number without one.
  int64_t room_bytes() const;
  /// Bytes in use now.
  MemoryCounts in_use() const;
  /// The most bytes in use at once since the last reset.
  int64_t peak_bytes() const;
  /// What was in use, by purpose, at the moment of the peak.
  MemoryCounts at_peak() const;
  /// The peak starts again from what is in use now.
  void reset_peak();
  /// Returns segments without a block in use to the source, and the pages of free blocks where it can.
  void release_cached() noexcept;
  /// From now on asks before it does: a device may still read what was freed, as it is written again only behind that.
  /// Where `settle` returns null this isn't over, and nothing is returned; what else it returns lives until that is
  /// done. Called with the allocator locked.
  using Settle = std::function<std::shared_ptr<void>()>;
  void settle_before_release(Settle settle);

 private:
  /// Small blocks and large ones lie apart, so that a small one never keeps two large ones from joining.
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

/// Blocks come from a pool as long as it lives.
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
