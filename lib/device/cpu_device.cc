#include "device/cpu_device.h"

#include <omp.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <string_view>

namespace dptrain {
namespace {

/// The C library's heap; blocks of 4 MiB and more ask for huge pages, which cuts page faults and TLB misses.
class HeapMemory final : public MemorySource {
 public:
  void* take(int64_t bytes) override {
    constexpr int64_t kHugePage = int64_t{2} << 20;
    const bool large = bytes >= 2 * kHugePage;
    const auto alignment = static_cast<size_t>(large ? kHugePage : 64);
    const auto size = (static_cast<size_t>(bytes) + alignment - 1) / alignment * alignment;
    void* memory = std::aligned_alloc(alignment, size);
    if (memory != nullptr && large) ::madvise(memory, size, MADV_HUGEPAGE);
    return memory;
  }
  void give_back(void* memory, int64_t) noexcept override { std::free(memory); }
};

bool allowed(const char* variable, std::string_view none_of_avx512, std::string_view none_of_avx2, CpuIsa isa) {
  const char* value = std::getenv(variable);
  if (value == nullptr) return true;
  const std::string_view cap(value);
  if (cap.find(none_of_avx2) != std::string_view::npos) return isa < CpuIsa::avx2;
  if (cap.find(none_of_avx512) != std::string_view::npos && cap.find("512") == std::string_view::npos)
    return isa < CpuIsa::avx512;
  return true;
}

bool may_use(CpuIsa isa) {
  // oneDNN's own variable counts too: layouts and kernels must agree on the width of a channel block.
  return allowed("DNNL_MAX_CPU_ISA", "AVX2", "SSE41", isa) && allowed("ONEDNN_MAX_CPU_ISA", "AVX2", "SSE41", isa);
}

}  // namespace

CpuDevice::CpuDevice(DeviceId id, const DeviceOptions& options)
    : Device(id, options.rank, options.threads, std::make_unique<HeapMemory>(), options.memory_limit_bytes) {}

void CpuDevice::enter_thread() { omp_set_num_threads(threads()); }

void CpuDevice::fill_zero(void* memory, int64_t bytes) { std::memset(memory, 0, static_cast<size_t>(bytes)); }

void CpuDevice::copy(void* to, const void* from, int64_t bytes) { std::memcpy(to, from, static_cast<size_t>(bytes)); }

int usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN));
  return CPU_COUNT(&set);
}

CpuIsa cpu_isa() {
  static const CpuIsa isa = [] {
    const bool has_avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                            __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    if (has_avx512 && may_use(CpuIsa::avx512)) return CpuIsa::avx512;
    if (has_avx2 && may_use(CpuIsa::avx2)) return CpuIsa::avx2;
    return CpuIsa::baseline;
  }();
  return isa;
}

const char* cpu_isa_name(CpuIsa isa) {
  switch (isa) {
    case CpuIsa::baseline: return "baseline";
    case CpuIsa::avx2: return "avx2";
    case CpuIsa::avx512: return "avx512";
  }
  return "";
}

std::string cpu_model_name() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    const auto colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown";
}

int64_t host_memory_bytes() { return int64_t{::sysconf(_SC_PHYS_PAGES)} * ::sysconf(_SC_PAGESIZE); }

}  // namespace dptrain
