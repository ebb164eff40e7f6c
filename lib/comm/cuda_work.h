#pragma once

#include <exception>

#include "comm/communicator.h"
#include "device/cuda_device.h"
#include "device/timeline.h"

namespace dptrain {

/// What has been given to a stream of a device so far: what the device is given after `wait` comes after it.
class CudaWork final : public CommWork {
 public:
  /// `span`: of it on the device's timeline of what it exchanges, which ends with it.
  CudaWork(CudaDevice& device, cudaStream_t stream, int64_t span = Timeline::kNone) : device_(device) {
    if (span != Timeline::kNone) device.communication_timeline()->end(span);
    finished_.record(stream);
  }
  CudaWork(const CudaWork&) = delete;
  CudaWork& operator=(const CudaWork&) = delete;
  /// Ended without `wait`, it is waited for all the same: its buffers may be used for something else.
  ~CudaWork() override {
    try {
      finished_.block(device_.stream());
    } catch (const std::exception&) {
      // The device has failed: the next call says so.
    }
  }
  void wait() override { finished_.block(device_.stream()); }

 private:
  CudaDevice& device_;
  CudaEvent finished_;
};

}  // namespace dptrain
