#include "ops/cudnn_handle_cuda.h"

#include <fmt/format.h>

#include "base/error.h"
#include "device/cuda_device.h"
#include "ops/gpu_libraries_cuda.h"

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

LibraryVersion cudnn_library() {
  const auto loaded = static_cast<int>(cudnnGetVersion());  // 91900
  return {.name = "cuDNN",
          .built_major = CUDNN_MAJOR,
          .built_minor = CUDNN_MINOR,
          .loaded_major = loaded / 10000,
          .loaded_minor = loaded / 100 % 100};
}

void require_whole_cudnn() {
  cudnn_check(cudnnGraphVersionCheck(), "cudnnGraphVersionCheck (its parts are of different versions)");
  cudnn_check(cudnnCnnVersionCheck(), "cudnnCnnVersionCheck (its parts are of different versions)");
}

cudnnHandle_t cudnn_handle(Device& device) { return device.attached<Handle>().get(); }

}  // namespace dptrain::ops::cuda
