#include "ops/cudnn_handle_cuda.h"

#include <cuda_runtime_api.h>
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
    cudnnHandle_t handle = nullptr;
    cudnn_check(cudnnCreate(&handle), "cudnnCreate");
    handle_ = {handle, cudnnDestroy};
    cudnn_check(cudnnSetStream(handle, CudaDevice::of(device).stream()), "cudnnSetStream");
  }

  const std::shared_ptr<cudnnContext>& get() const { return handle_; }

 private:
  std::shared_ptr<cudnnContext> handle_;
};

}  // namespace

LibraryVersion cudnn_library() {
  const auto loaded = static_cast<int>(cudnnGetVersion());  // for example 91900
  return {.name = "cuDNN",
          .built_major = CUDNN_MAJOR,
          .built_minor = CUDNN_MINOR,
          .loaded_major = loaded / 10000,
          .loaded_minor = loaded / 100 % 100};
}

void require_whole_cudnn() {
  cudnn_check(cudnnGraphVersionCheck(), "cudnnGraphVersionCheck (cuDNN's parts have different versions)");
  cudnn_check(cudnnCnnVersionCheck(), "cudnnCnnVersionCheck (cuDNN's parts have different versions)");
  // Builds of cuDNN for other major versions of CUDA have the same name.
  constexpr size_t kOwn = CUDART_VERSION / 1000;
  if (const size_t other = cudnnGetCudartVersion() / 1000; other != kOwn)
    throw Error(
        ExitCode::device,
        Mistake{.where = "cuDNN",
                .expected = fmt::format("expected a build for CUDA {}", kOwn),
                .got = fmt::format("a build for CUDA {}", other),
                .advice = fmt::format(
                    "put the cuDNN of nvidia-cudnn-cu{}, or of a CUDA Toolkit, before it in LD_LIBRARY_PATH", kOwn)});
}

std::shared_ptr<cudnnContext> cudnn_handle(Device& device) { return device.attached<Handle>().get(); }

}  // namespace dptrain::ops::cuda
