// Replaces the toolkit's cuda_runtime.h where the GPU is simulated: the real API declarations, and the C++ part
// (qualifiers, device functions, launches) for a host compiler. See ../README.md.
#pragma once
#ifndef __CUDA_RUNTIME_H__
#define __CUDA_RUNTIME_H__

#include <builtin_types.h>
#include <cuda_runtime_api.h>
#include <library_types.h>
#include <vector_functions.h>

#include <functional>
#include <tuple>
#include <utility>

#include "cuda_sim_device.h"

namespace dptrain::cuda_sim {

// Enqueues a grid in which every thread calls `thread`; checks the configuration as CUDA does.
cudaError_t launch(const cudaLaunchConfig_t& config, const void* kernel, std::function<void()> thread);

template <typename... Parameters>
std::function<void()> bind_arguments(void (*kernel)(Parameters...), Parameters... arguments) {
  return [kernel, values = std::tuple<Parameters...>(std::move(arguments)...)] { std::apply(kernel, values); };
}

}  // namespace dptrain::cuda_sim

// Has the signature of the toolkit's function. Arguments are converted and copied at the call.
template <typename... Parameters, typename... Arguments>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Parameters...),
                               Arguments&&... arguments) {
  if (config == nullptr || kernel == nullptr) return cudaErrorInvalidValue;
  return dptrain::cuda_sim::launch(
      *config, reinterpret_cast<const void*>(kernel),
      dptrain::cuda_sim::bind_arguments<Parameters...>(kernel, std::forward<Arguments>(arguments)...));
}

// The C++ overloads of the toolkit's header.
template <typename T>
cudaError_t cudaMalloc(T** pointer, size_t size) {
  return ::cudaMalloc(reinterpret_cast<void**>(pointer), size);
}
template <typename T>
cudaError_t cudaMallocHost(T** pointer, size_t size, unsigned int flags = 0) {
  return ::cudaHostAlloc(reinterpret_cast<void**>(pointer), size, flags);
}
template <typename T>
cudaError_t cudaHostAlloc(T** pointer, size_t size, unsigned int flags) {
  return ::cudaHostAlloc(reinterpret_cast<void**>(pointer), size, flags);
}
inline cudaError_t cudaEventCreate(cudaEvent_t* event, unsigned int flags) {
  return ::cudaEventCreateWithFlags(event, flags);
}
template <typename T>
cudaError_t cudaFuncSetAttribute(T* function, cudaFuncAttribute attribute, int value) {
  return ::cudaFuncSetAttribute(reinterpret_cast<const void*>(function), attribute, value);
}
template <typename T>
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, T* function) {
  return ::cudaFuncGetAttributes(attributes, reinterpret_cast<const void*>(function));
}
template <typename T>
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, T function, int block_size, size_t shared) {
  return ::cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, reinterpret_cast<const void*>(function), block_size,
                                                         shared);
}

#endif  // __CUDA_RUNTIME_H__
