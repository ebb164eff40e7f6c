#pragma once

#include <cuda_runtime_api.h>

namespace dptrain {

/// Throws 71, naming the call and the device in use, where a call of the CUDA runtime failed.
void cuda_check(cudaError_t status, const char* call);

}  // namespace dptrain
