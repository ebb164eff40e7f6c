#pragma once

#include <cstdint>
#include <limits>
#include <memory>

#include "base/clock.h"
#include "device/device.h"
#include "device/operator_log.h"

namespace dptrain {

/// Stands for a device of its id's kind and computes nothing: its memory is address space that no operator touches, its
/// allocator counts as that of the device would, and its operators are logged instead of being done. What is read from
/// it are zeros. Recorded work is done, that is logged, once as it is recorded.
///
/// A CPU worker's operators run as they do on one up to the loops over their elements (parallel_for.h) and the calls of
/// oneDNN, so they take the same memory. A GPU's take what a CPU worker's would in the GPU's layouts: all but workspace
/// is as it is there.
class MetaDevice final : public Device {
 public:
  MetaDevice(const DeviceId& id, const DeviceOptions& options);
  ~MetaDevice() override;

  /// Its moments are numbers of operators, see `logged_operators`.
  std::unique_ptr<Timeline> make_timeline() override;
  /// How many operators the device had logged since its log was cleared, by a moment of its timeline.
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
