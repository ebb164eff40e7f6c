#include "ops/gpu_libraries.h"

#include "device/with_cuda.h"
#include "ops/gpu_libraries_cuda.h"

namespace dptrain::ops {

std::vector<LibraryVersion> gpu_libraries() {
  if constexpr (kWithCuda) return {cuda::cudnn_library(), cuda::cublaslt_library()};
  return {};
}

void require_gpu_libraries() {
  if constexpr (kWithCuda) cuda::require_cublaslt();
  for (const LibraryVersion& library : gpu_libraries()) library.require_fit();
  if constexpr (kWithCuda) cuda::require_whole_cudnn();
}

}  // namespace dptrain::ops
