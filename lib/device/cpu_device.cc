#include "device/cpu_device.h"

#include <malloc.h>
#include <omp.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <vector>

namespace dptrain {
namespace {

/// Memory from the C library's heap. Blocks of 4 MiB and more ask for huge pages, which reduces page faults and TLB
/// misses.
class HeapMemory final : public MemorySource {
 public:
  void* take(int64_t bytes) override {
    if (bytes >= kLarge && !has_room(bytes)) return nullptr;
    constexpr int64_t kHugePage = int64_t{2} << 20;
    const bool large = bytes >= 2 * kHugePage;
    const auto alignment = static_cast<size_t>(large ? kHugePage : 64);
    const auto size = (static_cast<size_t>(bytes) + alignment - 1) / alignment * alignment;
    void* memory = std::aligned_alloc(alignment, size);
    if (memory != nullptr && large) ::madvise(memory, size, MADV_HUGEPAGE);
    return memory;
  }
  void give_back(void* memory, int64_t) noexcept override { std::free(memory); }
  /// Counts for all CPU workers of the process together. A process that took more than is free would be killed, or
  /// another one would.
  bool claim(int64_t bytes) override {
    if (claimed_.fetch_add(bytes, std::memory_order_relaxed) + bytes <= most()) return true;
    give_up(bytes);
    return false;
  }
  void give_up(int64_t bytes) noexcept override { claimed_.fetch_sub(bytes, std::memory_order_relaxed); }
  std::optional<int64_t> claimable_bytes() const override { return most(); }
  bool costs_once_written() const override { return true; }
  void discard(void* memory, int64_t bytes) noexcept override {
    static const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
    const auto begin = reinterpret_cast<std::uintptr_t>(memory);
    const std::uintptr_t first = (begin + page - 1) / page * page;
    const std::uintptr_t end = (begin + static_cast<std::uintptr_t>(bytes)) / page * page;
    if (first < end) ::madvise(reinterpret_cast<void*>(first), end - first, MADV_DONTNEED);
  }
  /// Activations of deep layers, half a MiB to a MiB each, would leave much of the small blocks' segments unused.
  int64_t most_small_bytes() const override { return int64_t{1} << 18; }
  /// Segments may be large, because untouched memory takes none of the machine's.
  int64_t segment_bytes(int64_t wanted) const override {
    constexpr int64_t kMiB = int64_t{1} << 20;
    return std::max(wanted, wanted > most_small_bytes() ? 256 * kMiB : 2 * kMiB);
  }

 private:
  /// Size in bytes from which it is worth asking the kernel.
  static constexpr int64_t kLarge = int64_t{64} << 20;

  static int64_t most() {
    static const int64_t most = most_of_workers(available_memory_bytes());
    return most;
  }
  /// Whether `bytes` fit beside everything else that the process has taken since the first call. If they don't, first
  /// returns the memory that the C library keeps for later.
  static bool has_room(int64_t bytes) {
    static const int64_t at_first = resident_bytes();
    const auto fits = [&] { return resident_bytes() - at_first + bytes <= most(); };
    if (fits()) return true;
    ::malloc_trim(0);
    return fits();
  }

  static inline std::atomic<int64_t> claimed_ = 0;
};

class PlainHostMemory final : public HostMemory {
 public:
  explicit PlainHostMemory(int64_t bytes) : HostMemory(nullptr), bytes_(static_cast<size_t>(bytes)) {
    data_ = bytes_.data();
  }

 private:
  std::vector<std::byte> bytes_;
};

/// A mark that needs no wait: a CPU worker's work is done when the call returns.
class NoMark final : public DeviceMark {
 public:
  void set() override {}
  void wait() override {}
};

}  // namespace

CpuDevice::CpuDevice(DeviceId id, const DeviceOptions& options) : Device(id, options, std::make_unique<HeapMemory>()) {}

std::unique_ptr<Device> CpuDevice::core_of(const Device& worker) {
  return std::unique_ptr<Device>(new CpuDevice(worker));
}

void CpuDevice::enter_thread() { omp_set_num_threads(threads()); }

void CpuDevice::fill_zero(void* memory, int64_t bytes) { std::memset(memory, 0, static_cast<size_t>(bytes)); }

void CpuDevice::copy(void* to, const void* from, int64_t bytes) {
  // memcpy needs an address even for 0 bytes, and an empty vector on the host has none.
  if (bytes > 0) std::memcpy(to, from, static_cast<size_t>(bytes));
}

std::unique_ptr<HostMemory> CpuDevice::host_memory(int64_t bytes) { return std::make_unique<PlainHostMemory>(bytes); }

std::unique_ptr<DeviceMark> CpuDevice::make_mark() { return std::make_unique<NoMark>(); }

}  // namespace dptrain
