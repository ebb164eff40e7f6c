#pragma once

#include <exception>

#include "comm/communicator.h"
#include "device/cuda_device.h"
#include "device/timeline.h"

namespace dptrain {

/// Work that a stream of a device has been given so far. After `wait`, the device's later work runs after it.
class CudaWork final : public CommWork {
 public:
  /// Ends `span`, a span of this work on the device's communication timeline.
  CudaWork(CudaDevice& device, cudaStream_t stream, int64_t span = Timeline::kNone) : device_(device) {
    if (span != Timeline::kNone) device.communication_timeline()->end(span);
    finished_.record(stream);
  }
  CudaWork(const CudaWork&) = delete;
  CudaWork& operator=(const CudaWork&) = delete;
  /// Waits even if `wait` was never called, because the buffers may be used for something else.
  ~CudaWork() override {
    try {
      finished_.block(device_.stream());
    } catch (const std::exception&) {
      // The device has failed. The next call reports it.
    }
  }
  void wait() override { finished_.block(device_.stream()); }

 private:
  CudaDevice& device_;
  CudaEvent finished_;
};

}  // namespace dptrain
