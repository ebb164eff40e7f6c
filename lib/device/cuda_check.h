#pragma once

#include <cuda_runtime_api.h>

namespace dptrain {

/// Throws an error with exit code 71 if a call of the CUDA runtime failed. The error names the call and the current
/// device.
void cuda_check(cudaError_t status, const char* call);

}  // namespace dptrain
