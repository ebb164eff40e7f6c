#pragma once

#include "device/buffer.h"
#include "device/cuda_device.h"
#include "device/timeline.h"

namespace dptrain {

/// What a stream of a GPU is at, by the GPU's own clock: each mark is a kernel that writes the clock down, in recorded
/// work as well. Used by the device's rank thread.
class CudaTimeline final : public Timeline {
 public:
  CudaTimeline(CudaDevice& device, cudaStream_t stream);

 private:
  /// Places of marks: those that stay are taken from the end, the others from the beginning, again after each settling.
  static constexpr int64_t kPlaces = int64_t{1} << 16;

  int64_t mark(bool stays) override;
  std::vector<Clock::time_point> moments(const std::vector<int64_t>& marks) override;
  /// The host's time minus the GPU's, in nanoseconds: as near as it takes to give a mark and to wait for it.
  int64_t host_ahead_ns();
  int64_t* place(int64_t number) const { return static_cast<int64_t*>(places_.data()) + number; }

  CudaDevice& device_;
  cudaStream_t stream_;
  Buffer places_;
  CudaEvent given_{CudaEvent::WaitedFor::by_host};
  int64_t next_ = 1;  ///< place 0 is for setting the clocks
  int64_t first_staying_ = kPlaces;
};

}  // namespace dptrain
