#pragma once

#include <array>
#include <memory>

#include "device/cuda_handles.h"
#include "device/device.h"

namespace dptrain {

class CudaDevice;

/// Pinned memory, which the GPU reads and writes directly.
class PinnedMemory final : public HostMemory {
 public:
  explicit PinnedMemory(int64_t bytes);
  ~PinnedMemory() override;
};

/// Makes small copies to a GPU without waiting for them. The bytes go through one of a few pinned slots, which is
/// reused once its copy is done. Used by the device's rank thread.
class UploadRing {
 public:
  static constexpr int64_t kSlotBytes = int64_t{256} << 10;

  /// `device` is the ring's device. `bytes` is at most kSlotBytes. Blocks only if all slots are in use.
  void upload(CudaDevice& device, void* to, const void* host, int64_t bytes);

 private:
  struct Slot {
    PinnedMemory memory{kSlotBytes};
    CudaEvent copied{CudaEvent::WaitedFor::by_host};
  };
  std::array<Slot, 4> slots_;
  size_t next_ = 0;
};

}  // namespace dptrain
