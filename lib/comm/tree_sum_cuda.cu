#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>

#include "base/error.h"
#include "comm/tree_sum_cuda.h"
#include "device/cuda_launch.h"

namespace dptrain {
namespace {

constexpr int kThreads = 256;

struct Places {
  const void* inputs[kMaxCudaTreeInputs];
  void* outputs[kMaxCudaTreeInputs];
  uint8_t additions[kMaxCudaTreeInputs];  ///< how many additions follow each input; see additions_after
  uint64_t sums;                          ///< a bit for each input that is a sum of several ranks, not rounded yet
  int input_count;
  int output_count;
  bool partial;  ///< the output isn't rounded
};

/// The type in which numbers are added: float for 16-bit types.
template <class T>
struct Addend {
  using Type = T;
  __device__ static T read(T x) { return x; }
  __device__ static T written(T x) { return x; }
};
template <>
struct Addend<__nv_bfloat16> {
  using Type = float;
  __device__ static float read(__nv_bfloat16 x) { return __bfloat162float(x); }
  __device__ static __nv_bfloat16 written(float x) { return __float2bfloat16_rn(x); }
};
template <>
struct Addend<__half> {
  using Type = float;
  __device__ static float read(__half x) { return __half2float(x); }
  __device__ static __half written(float x) { return __float2half_rn(x); }
};

/// Sums in the tree's order while reading the inputs one after the other, with a stack. Reads each input once and
/// writes each output once, over the links if they are on other GPUs.
template <class T>
__global__ void tree_sum_kernel(Places places, int64_t begin, int64_t end) {
  using Sum = typename Addend<T>::Type;
  for (int64_t i = begin + int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < end;
       i += int64_t{gridDim.x} * blockDim.x) {
    Sum stack[kMostOnStack];
    int height = 0;
    for (int k = 0; k < places.input_count; ++k) {
      Sum sum = (places.sums >> k) & 1 ? static_cast<const Sum*>(places.inputs[k])[i]
                                       : Addend<T>::read(static_cast<const T*>(places.inputs[k])[i]);
      for (int n = places.additions[k]; n > 0; --n) sum = stack[--height] + sum;
      stack[height++] = sum;
    }
    for (int o = 0; o < places.output_count; ++o) {
      if (places.partial)
        static_cast<Sum*>(places.outputs[o])[i] = stack[0];
      else
        static_cast<T*>(places.outputs[o])[i] = Addend<T>::written(stack[0]);
    }
  }
}

template <class T>
void launch_sum(CudaDevice& device, const Places& places, int64_t begin, int64_t end) {
  const int64_t most = int64_t{device.multiprocessors()} * 8, needed = (end - begin + kThreads - 1) / kThreads;
  launch_kernel("tree_sum", device.communication_stream(), static_cast<unsigned>(std::min(most, needed)), kThreads,
                tree_sum_kernel<T>, places, begin, end);
}

void copy(CudaDevice& device, const TreeSum& sum, int64_t begin, int64_t end) {
  const int64_t width = dtype_bytes(sum.dtype);
  const auto* from = static_cast<const std::byte*>(sum.inputs[0]) + begin * width;
  for (void* output : sum.outputs) {
    if (output == sum.inputs[0]) continue;
    cuda_check(
        cudaMemcpyAsync(static_cast<std::byte*>(output) + begin * width, from,
                        static_cast<size_t>((end - begin) * width), cudaMemcpyDefault, device.communication_stream()),
        "cudaMemcpyAsync");
  }
}

template <class T>
void load() {
  cudaFuncAttributes attributes;
  cuda_check(cudaFuncGetAttributes(&attributes, tree_sum_kernel<T>), "cudaFuncGetAttributes");
}

}  // namespace

void load_tree_sums() {
  load<float>();
  load<double>();
  load<uint32_t>();
  load<uint64_t>();
  load<__nv_bfloat16>();
  load<__half>();
}

void run_tree_sum(CudaDevice& device, const TreeSum& sum, int64_t begin, int64_t end) {
  if (begin >= end) return;
  if (sum.is_copy()) return copy(device, sum, begin, end);
  if (std::max(sum.inputs.size(), sum.outputs.size()) > kMaxCudaTreeInputs)
    throw Error(ExitCode::device, device.name() + ": a GPU adds up the values of at most 64 ranks; list fewer devices");
  Places places{};
  places.input_count = static_cast<int>(sum.inputs.size());
  places.output_count = static_cast<int>(sum.outputs.size());
  places.partial = sum.partial;
  std::ranges::copy(sum.inputs, places.inputs);
  std::ranges::copy(sum.outputs, places.outputs);
  const std::vector<int> widths = sum.widths_of_inputs();
  std::ranges::copy(additions_after(widths), places.additions);
  for (size_t k = 0; k < widths.size(); ++k) places.sums |= uint64_t{widths[k] > 1} << k;
  switch (sum.dtype) {
    case DType::f32: return launch_sum<float>(device, places, begin, end);
    case DType::f64: return launch_sum<double>(device, places, begin, end);
    case DType::i32: return launch_sum<uint32_t>(device, places, begin, end);
    case DType::i64: return launch_sum<uint64_t>(device, places, begin, end);
    case DType::bf16: return launch_sum<__nv_bfloat16>(device, places, begin, end);
    case DType::f16: return launch_sum<__half>(device, places, begin, end);
    default: throw Error(ExitCode::bug, "a type that can't be summed");
  }
}

}  // namespace dptrain
