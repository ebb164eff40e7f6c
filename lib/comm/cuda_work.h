#pragma once

#include <exception>

#include "comm/communicator.h"
#include "device/cuda_device.h"

namespace dptrain {

/// What has been given to a stream of a device so far: what the device is given after `wait` comes after it.
class CudaWork final : public CommWork {
 public:
  CudaWork(CudaDevice& device, cudaStream_t stream) : device_(device) { finished_.record(stream); }
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
