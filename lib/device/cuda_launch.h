#pragma once

#include <cuda_runtime.h>

#include <utility>

#include "device/cuda_check.h"

namespace dptrain {

/// Gives kernel(arguments...) to the stream. Throws 71, naming the kernel, where it is refused. For .cu files only.
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
