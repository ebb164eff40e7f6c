#include "device/cuda_check.h"

#include <fmt/format.h>

#include "base/error.h"

namespace dptrain {

void cuda_check(cudaError_t status, const char* call) {
  if (status == cudaSuccess) return;
  int device = -1;
  cudaGetDevice(&device);
  throw Error(ExitCode::device, fmt::format("cuda:{}: {} failed: {} ({})", device, call, cudaGetErrorString(status),
                                            cudaGetErrorName(status)));
}

}  // namespace dptrain
