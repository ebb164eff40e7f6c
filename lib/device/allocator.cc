#include "device/allocator.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "base/error.h"

namespace dptrain {
namespace {

/// Gives up the bytes claimed from a source, unless they are kept.
class Claim {
 public:
  Claim(MemorySource& source, int64_t bytes) : source_(source), bytes_(bytes) {}
  Claim(const Claim&) = delete;
  Claim& operator=(const Claim&) = delete;
  ~Claim() { source_.give_up(bytes_); }
  void keep() { bytes_ = 0; }

 private:
  MemorySource& source_;
  int64_t bytes_;
};

std::string advice_for(MemoryPurpose purpose) {
  const bool is_of_model =
      purpose == MemoryPurpose::weights || purpose == MemoryPurpose::gradients || purpose == MemoryPurpose::optimizer;
  return is_of_model ? "use a smaller model or a strategy that splits it"
                     : "use a smaller batch, more devices or a strategy that splits the model";
}

}  // namespace

CachingAllocator::CachingAllocator(std::string name, MemorySource& source, int64_t limit_bytes)
    : name_(std::move(name)), source_(source), limit_bytes_(limit_bytes), common_(source), recorded_(source) {}

CachingAllocator::~CachingAllocator() {
  keep_recorded_ = false;
  release_cached();
}

CachingAllocator::Block CachingAllocator::allocate(int64_t bytes, MemoryPurpose purpose) {
  const int64_t alignment = source_.alignment();
  const int64_t wanted = std::max(alignment, (bytes + alignment - 1) / alignment * alignment);
  const std::lock_guard lock(mutex_);
  const auto refuse = [&](const std::string& expected, const char* first_advice = "") {
    throw Error(ExitCode::device,
                Mistake{.where = name_, .expected = expected, .got = "", .advice = first_advice + advice_for(purpose)});
  };
  if (limit_bytes_ > 0 && total_in_use_ + wanted > limit_bytes_)
    refuse(fmt::format("wanted {} bytes for {} with {} bytes in use and a limit of {} bytes (memory_limit)", wanted,
                       memory_purpose_name(purpose), total_in_use_, limit_bytes_),
           "raise it, or ");
  const auto out_of_memory = [&] {
    const auto claimable = source_.claimable_bytes();
    refuse(fmt::format("out of memory: wanted {} bytes for {} with {} bytes in use{}", wanted,
                       memory_purpose_name(purpose), total_in_use_,
                       claimable ? fmt::format(", out of {} bytes that were free for all workers", *claimable) : ""));
  };
  if (!source_.claim(wanted)) out_of_memory();
  Claim claim(source_, wanted);
  MemoryArena& arena = arena_of(pool_, wanted);
  Block block{arena.take(wanted), wanted, pool_};
  if (block.memory == nullptr) {
    release_cached_locked();
    block.memory = arena.take(wanted);
  }
  if (block.memory == nullptr) out_of_memory();
  claim.keep();
  in_use_[purpose] += block.bytes;
  total_in_use_ += block.bytes;
  raise_peak(in_use_);
  if (window_peak_ && total_in_use_ > window_peak_->total_bytes()) window_peak_ = in_use_;
  return block;
}

void CachingAllocator::free(Block block, MemoryPurpose purpose) noexcept {
  const std::lock_guard lock(mutex_);
  in_use_[purpose] -= block.bytes;
  total_in_use_ -= block.bytes;
  source_.give_up(block.bytes);
  arena_of(block.pool, block.bytes).give_back(block.memory);
}

MemoryPool CachingAllocator::use(MemoryPool pool) {
  const std::lock_guard lock(mutex_);
  return std::exchange(pool_, pool);
}

void CachingAllocator::keep_recorded() {
  const std::lock_guard lock(mutex_);
  keep_recorded_ = true;
}

bool CachingAllocator::keeps_recorded() const {
  const std::lock_guard lock(mutex_);
  return keep_recorded_;
}

MemoryCounts CachingAllocator::peak_during(const std::function<void()>& body) {
  {
    const std::lock_guard lock(mutex_);
    window_peak_ = in_use_;
  }
  body();
  const std::lock_guard lock(mutex_);
  return *std::exchange(window_peak_, std::nullopt);
}

void CachingAllocator::note_use(const MemoryCounts& counts) {
  const std::lock_guard lock(mutex_);
  raise_peak(counts);
}

void CachingAllocator::raise_peak(const MemoryCounts& counts) {
  if (counts.total_bytes() <= peak_bytes_) return;
  peak_bytes_ = counts.total_bytes();
  at_peak_ = counts;
}

int64_t CachingAllocator::source_calls() const {
  const std::lock_guard lock(mutex_);
  return common_.small.source_calls() + common_.large.source_calls() + recorded_.small.source_calls() +
         recorded_.large.source_calls();
}

int64_t CachingAllocator::room_bytes() const {
  const std::lock_guard lock(mutex_);
  return limit_bytes_ > 0 ? limit_bytes_ - total_in_use_ : std::numeric_limits<int64_t>::max();
}

MemoryCounts CachingAllocator::in_use() const {
  const std::lock_guard lock(mutex_);
  return in_use_;
}

int64_t CachingAllocator::peak_bytes() const {
  const std::lock_guard lock(mutex_);
  return peak_bytes_;
}

MemoryCounts CachingAllocator::at_peak() const {
  const std::lock_guard lock(mutex_);
  return at_peak_;
}

void CachingAllocator::reset_peak() {
  const std::lock_guard lock(mutex_);
  peak_bytes_ = total_in_use_;
  at_peak_ = in_use_;
}

void CachingAllocator::release_cached() noexcept {
  const std::lock_guard lock(mutex_);
  release_cached_locked();
}

void CachingAllocator::settle_before_release(Settle settle) {
  const std::lock_guard lock(mutex_);
  settle_ = std::move(settle);
}

void CachingAllocator::release_cached_locked() noexcept {
  const std::shared_ptr<void> settled = settle_ ? settle_() : nullptr;
  if (settle_ && settled == nullptr) return;
  for (const MemoryPool pool : {MemoryPool::common, MemoryPool::recorded}) {
    if (pool == MemoryPool::recorded && keep_recorded_) continue;
    arenas(pool).small.release_free();
    arenas(pool).large.release_free();
  }
}

}  // namespace dptrain
