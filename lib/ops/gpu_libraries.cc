#include "ops/gpu_libraries.h"

#include "device/with_cuda.h"
#include "ops/gpu_libraries_cuda.h"

namespace dptrain::ops {

std::vector<LibraryVersion> gpu_libraries() {
  if constexpr (kWithCuda) return {cuda::cudnn_library(), cuda::cublaslt_library()};
  return {};
}

}  // namespace dptrain::ops
