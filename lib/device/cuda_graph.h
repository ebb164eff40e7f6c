#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <memory>

#include "device/device.h"

namespace dptrain {

/// Captures what `give` gives to `stream`, and to streams that join it by events, as one CUDA graph. In thread-local
/// mode: what other threads do meanwhile is not looked at. Where `give` throws, the capture is ended and forgotten.
std::unique_ptr<RecordedWork> capture_cuda_graph(cudaStream_t stream, const std::function<void()>& give);

/// Lets the calling thread allocate and free memory although it is capturing, as long as it lives: what it allocates is
/// kept, and what it does isn't part of the capture.
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
