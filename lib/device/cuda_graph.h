#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <memory>

#include "device/device.h"

namespace dptrain {

/// Captures what `give` gives to `stream`, and to streams that join it by events, as one CUDA graph. The capture mode
/// is thread-local: CUDA doesn't check the calls of other threads. A call of theirs that waits for all of the GPU's
/// work still spoils the capture; see Device::keep_recording_off. If `give` throws, the capture is ended and discarded.
std::unique_ptr<RecordedWork> capture_cuda_graph(cudaStream_t stream, const std::function<void()>& give);

/// Lets the calling thread allocate and free memory during a capture, as long as it lives. The memory stays allocated,
/// and these calls aren't part of the capture.
class OutsideCapture {
 public:
  OutsideCapture() noexcept;
  ~OutsideCapture();
  OutsideCapture(const OutsideCapture&) = delete;
  OutsideCapture& operator=(const OutsideCapture&) = delete;

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

}  // namespace dptrain
