#pragma once

#include <memory>

#include "device/device.h"
#include "device/host_machine.h"

namespace dptrain {

/// A CPU worker. It has `threads` OpenMP threads, started by the rank thread that enters it, and an allocator of its
/// own.
class CpuDevice final : public Device {
 public:
  CpuDevice(DeviceId id, const DeviceOptions& options);
  /// Makes a device for one core of a CPU worker. It computes with one thread, which may be any thread. It uses the
  /// worker's memory, with its limit and counts.
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

}  // namespace dptrain
