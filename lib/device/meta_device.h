#pragma once

#include <cstdint>
#include <limits>
#include <memory>

#include "base/clock.h"
#include "device/device.h"
#include "device/operator_log.h"

namespace dptrain {

/// Stands for a device of its id's kind and computes nothing. Its memory is address space that no operator touches, and
/// its allocator counts as that of the real device would. Its operators are logged instead of run. Reading from it
/// gives zeros. Recorded work is logged once, while it is recorded.
///
/// A CPU worker's operators run as usual up to the loops over their elements (parallel_for.h) and the calls of oneDNN,
/// so they take the same memory. A GPU's operators take what a CPU worker's would take with the GPU's layouts. All of
/// their memory is as on a real GPU, except the workspace.
class MetaDevice final : public Device {
 public:
  MetaDevice(const DeviceId& id, const DeviceOptions& options);
  ~MetaDevice() override;

  /// Makes a timeline whose moments are numbers of operators; see `logged_operators`.
  std::unique_ptr<Timeline> make_timeline() override;
  /// How many operators the device had logged since its log was cleared, at a moment of its timeline.
  static int64_t logged_operators(Clock::time_point moment);

  int64_t free_bytes() const override { return std::numeric_limits<int64_t>::max(); }
  void enter_thread() override;
  void fill_zero(void* memory, int64_t bytes) override;
  void copy(void* to, const void* from, int64_t bytes) override;
  void upload(void* to, const void* host, int64_t bytes) override;
  void download(void* host, const void* from, int64_t bytes) override;
  void synchronize() override {}
  std::unique_ptr<HostMemory> host_memory(int64_t bytes) override;
  void copy_from_host(void* to, const HostMemory& from, int64_t bytes) override;
  std::unique_ptr<DeviceMark> make_mark() override;
  bool can_record() const override { return records_ && kind() == DeviceKind::cuda; }
  std::unique_ptr<RecordedWork> record(const std::function<void()>& give) override;

 private:
  bool records_;
};

}  // namespace dptrain
