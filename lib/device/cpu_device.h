#pragma once

#include "device/device.h"

namespace dptrain {

/// A logical CPU worker: `threads` OpenMP threads of the rank thread that enters it, and an allocator of its own.
class CpuDevice final : public Device {
 public:
  CpuDevice(DeviceId id, const DeviceOptions& options);

  void enter_thread() override;
  void fill_zero(void* memory, int64_t bytes) override;
  void copy(void* to, const void* from, int64_t bytes) override;
};

/// Cores that this process may run on: its affinity mask, not the machine's count.
int usable_cores();

/// Vector instructions that our kernels may use, at most what DPTRAIN_MAX_CPU_ISA and DNNL_MAX_CPU_ISA allow.
enum class CpuIsa { baseline, avx2, avx512 };
CpuIsa cpu_isa();
const char* cpu_isa_name(CpuIsa isa);

/// "Intel(R) Xeon(R) Processor", from /proc/cpuinfo; "unknown" where it doesn't say.
std::string cpu_model_name();

/// Bytes of memory of this machine.
int64_t host_memory_bytes();

}  // namespace dptrain
