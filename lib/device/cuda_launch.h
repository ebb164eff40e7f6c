#pragma once

#include <cuda_runtime.h>

#include <utility>

#include "device/cuda_check.h"

namespace dptrain {

/// Launches kernel(arguments...) on the stream. Throws an error with exit code 71 that names the kernel if the launch
/// is refused. For .cu files only.
template <class... Parameters, class... Arguments>
void launch_kernel(const char* name, cudaStream_t stream, dim3 grid, dim3 block, void (*kernel)(Parameters...),
                   Arguments&&... arguments) {
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = block;
  config.stream = stream;
  cuda_check(cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(std::forward<Arguments>(arguments))...), name);
}

}  // namespace dptrain
