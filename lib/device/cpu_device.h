#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "device/device.h"

namespace dptrain {

/// Bytes of memory of this machine.
int64_t host_memory_bytes();

/// A logical CPU worker: `threads` OpenMP threads of the rank thread that enters it, and an allocator of its own.
class CpuDevice final : public Device {
 public:
  CpuDevice(DeviceId id, const DeviceOptions& options);
  /// One core of a worker: computes with one thread, which may be any; its memory is the worker's, limit and counts
  /// included.
  static std::unique_ptr<Device> core_of(const Device& worker);

  int64_t free_bytes() const override { return host_memory_bytes(); }
  void enter_thread() override;
  void fill_zero(void* memory, int64_t bytes) override;
  void copy(void* to, const void* from, int64_t bytes) override;
  void upload(void* to, const void* host, int64_t bytes) override { copy(to, host, bytes); }
  void download(void* host, const void* from, int64_t bytes) override { copy(host, from, bytes); }
  void synchronize() override {}
  std::unique_ptr<HostMemory> host_memory(int64_t bytes) override;
  void copy_from_host(void* to, const HostMemory& from, int64_t bytes) override { copy(to, from.data(), bytes); }
  std::unique_ptr<DeviceMark> make_mark() override;

 private:
  explicit CpuDevice(const Device& worker) : Device(worker, 1) {}
};

/// Cores that a process, by default this one, may run on: its affinity mask, not the machine's count.
int usable_cores(int process = 0);

/// Vector instructions that our kernels are compiled for.
enum class CpuIsa { baseline, avx2, avx512 };

/// What our kernels use: the most that the machine has and the environment allows, as oneDNN itself does: its kernels
/// and ours must agree on the width of a channel block. AMX is told apart (device/cpu_amx.h).
CpuIsa cpu_isa();

/// The value of ONEDNN_MAX_CPU_ISA, or of the older DNNL_MAX_CPU_ISA where that says nothing: as oneDNN reads them.
std::string_view isa_cap_of_environment();

/// The most that a value of ONEDNN_MAX_CPU_ISA allows: "AVX2", "SSE41". Case doesn't matter, and names that aren't
/// oneDNN's allow everything, as there.
CpuIsa cpu_isa_cap(std::string_view value);
const char* cpu_isa_name(CpuIsa isa);

/// "Intel(R) Xeon(R) Processor", from /proc/cpuinfo; "unknown" where it doesn't say.
std::string cpu_model_name();

}  // namespace dptrain
