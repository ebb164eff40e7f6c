#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <initializer_list>
#include <utility>

#include "device/cuda_device.h"
#include "device/cuda_launch.h"
#include "tensor/tensor.h"

// What our kernels share: element types, loads of 16 bytes, launches. For .cu files only.

namespace dptrain {

template <>
constexpr DType dtype_of<__nv_bfloat16>() {
  return DType::bf16;
}
template <>
constexpr DType dtype_of<__half>() {
  return DType::f16;
}

namespace ops::cuda {

// Kernels compute in float, whatever their element type is.

__device__ inline float to_float(float x) { return x; }
__device__ inline float to_float(__nv_bfloat16 x) { return __bfloat162float(x); }
__device__ inline float to_float(__half x) { return __half2float(x); }

template <class T>
__device__ T from_float(float x);
template <>
__device__ inline float from_float<float>(float x) {
  return x;
}
template <>
__device__ inline __nv_bfloat16 from_float<__nv_bfloat16>(float x) {
  return __float2bfloat16_rn(x);
}
template <>
__device__ inline __half from_float<__half>(float x) {
  return __float2half_rn(x);
}

/// Passes a type as an argument.
template <class T>
struct ElementType {
  using Type = T;
};

/// Calls f(ElementType<T>()) for the tensor's element type, one of f32, bf16 and f16.
template <class F>
auto with_element_type(const Tensor& tensor, const F& f) {
  switch (tensor.dtype()) {
    case DType::bf16: return f(ElementType<__nv_bfloat16>());
    case DType::f16: return f(ElementType<__half>());
    default: return f(ElementType<float>());
  }
}

/// V neighboring elements of type T, loaded and stored at once. The address must be a multiple of their size.
template <class T, int V>
struct alignas(V * sizeof(T)) Pack {
  T at[V];

  __device__ static Pack load(const T* from) { return *reinterpret_cast<const Pack*>(from); }
  __device__ void store(T* to) const { *reinterpret_cast<Pack*>(to) = *this; }
  __device__ float get(int i) const { return to_float(at[i]); }
  __device__ void set(int i, float value) { at[i] = from_float<T>(value); }
};

/// The number of elements in 16 bytes, the widest load of a thread.
template <class T>
inline constexpr int kPackOf = 16 / static_cast<int>(sizeof(T));

/// Whether `count` elements at each of `pointers` can be read by packs of 16 bytes, which are `pack` elements. Blocks
/// of memory and parameters begin at multiples of 64 bytes. Samples of a tensor begin wherever their size puts them.
inline bool in_packs(int64_t count, int pack, std::initializer_list<const void*> pointers) {
  for (const void* pointer : pointers)
    if (reinterpret_cast<uintptr_t>(pointer) % 16 != 0) return false;
  return count % pack == 0;
}

/// Returns a pointer to the first element, or null for an undefined tensor.
template <class T>
T* data_or_null(const Tensor& tensor) {
  return tensor.defined() ? tensor.data<T>() : nullptr;
}

inline cudaStream_t stream_of(const Tensor& tensor) { return CudaDevice::of(tensor.device()).stream(); }

/// Launches kernel(arguments...) on the stream of the device that holds `where`. Throws 71 if the launch is refused.
template <class... Parameters, class... Arguments>
void launch(const char* name, const Tensor& where, dim3 grid, dim3 block, void (*kernel)(Parameters...),
            Arguments&&... arguments) {
  launch_kernel(name, stream_of(where), grid, block, kernel, std::forward<Arguments>(arguments)...);
}

inline constexpr int kThreads = 256;

/// The number of blocks of kThreads for a loop over `count` items in which a thread takes every (blocks * threads)-th
/// item. It is enough to fill the GPU a few times over, and no more than there is work for. It depends on the GPU, so
/// no sum's order may depend on it.
inline unsigned blocks_for(const Tensor& tensor, int64_t count) {
  const int64_t most = int64_t{CudaDevice::of(tensor.device()).multiprocessors()} * 8;
  const int64_t needed = (count + kThreads - 1) / kThreads;
  return static_cast<unsigned>(needed < most ? (needed > 0 ? needed : 1) : most);
}

/// The number of blocks of kThreads that have a thread for each of `count` items.
inline unsigned blocks_of_all(int64_t count) { return static_cast<unsigned>((count + kThreads - 1) / kThreads); }

/// The number of the thread in its grid, and the number of threads in the grid.
__device__ inline int64_t global_thread() { return int64_t{blockIdx.x} * blockDim.x + threadIdx.x; }
__device__ inline int64_t global_threads() { return int64_t{gridDim.x} * blockDim.x; }

}  // namespace ops::cuda
}  // namespace dptrain
