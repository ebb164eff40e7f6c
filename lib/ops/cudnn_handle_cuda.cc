#include "ops/cudnn_handle_cuda.h"

#include <fmt/format.h>

#include "base/error.h"
#include "device/cuda_device.h"

namespace dptrain::ops::cuda {
namespace {

void cudnn_check(cudnnStatus_t status, const char* call) {
  if (status != CUDNN_STATUS_SUCCESS)
    throw Error(ExitCode::device, fmt::format("cuDNN: {} failed: {}", call, cudnnGetErrorString(status)));
}

class Handle {
 public:
  explicit Handle(Device& device) {
    cudnn_check(cudnnCreate(&handle_), "cudnnCreate");
    cudnn_check(cudnnSetStream(handle_, CudaDevice::of(device).stream()), "cudnnSetStream");
  }
  ~Handle() {
    if (handle_ != nullptr) cudnnDestroy(handle_);
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  cudnnHandle_t get() const { return handle_; }

 private:
  cudnnHandle_t handle_ = nullptr;
};

}  // namespace

cudnnHandle_t cudnn_handle(Device& device) { return device.attached<Handle>().get(); }

}  // namespace dptrain::ops::cuda
