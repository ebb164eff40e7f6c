#pragma once

#include "device/buffer.h"
#include "device/cuda_device.h"
#include "device/timeline.h"

namespace dptrain {

/// The timeline of a GPU's stream, by the GPU's own clock. Each mark is a kernel that writes the clock down, in
/// recorded work too. Used by the device's rank thread.
class CudaTimeline final : public Timeline {
 public:
  CudaTimeline(CudaDevice& device, cudaStream_t stream);

 private:
  /// Number of places for marks. Marks that stay use places from the end. All others use places from the beginning,
  /// which are reused after each settling.
  static constexpr int64_t kPlaces = int64_t{1} << 16;

  int64_t mark(bool stays) override;
  std::vector<Clock::time_point> moments(const std::vector<int64_t>& marks) override;
  /// The host's time minus the GPU's, in nanoseconds. It is as exact as the time to give a mark and to wait for it.
  int64_t host_ahead_ns();
  int64_t* place(int64_t number) const { return static_cast<int64_t*>(places_.data()) + number; }

  CudaDevice& device_;
  cudaStream_t stream_;
  Buffer places_;
  CudaEvent given_{CudaEvent::WaitedFor::by_host};
  int64_t next_ = 1;  ///< place 0 is for comparing the clocks
  int64_t first_staying_ = kPlaces;
};

}  // namespace dptrain
