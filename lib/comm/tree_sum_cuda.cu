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
  int input_count;
  int output_count;
};

/// What numbers are added in: those of 16 bits in float.
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

/// The balanced tree as a binary counter: after input r the levels of the set bits of r + 1 hold the sums of whole
/// subtrees, the larger ones first; what is left at the end is added from the smallest up. Reads each input once and
/// writes each output once, over the links where they lie on other GPUs.
template <class T>
__global__ void tree_sum_kernel(Places places, int64_t begin, int64_t end) {
  using Sum = typename Addend<T>::Type;
  constexpr int kLevels = 7;  // 64 inputs
  for (int64_t i = begin + int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < end;
       i += int64_t{gridDim.x} * blockDim.x) {
    Sum level[kLevels];
    for (int r = 0; r < places.input_count; ++r) {
      Sum sum = Addend<T>::read(static_cast<const T*>(places.inputs[r])[i]);
      int height = 0;
      for (; (r >> height) & 1; ++height) sum = level[height] + sum;
      level[height] = sum;
    }
    Sum total{};
    bool first = true;
    for (int height = 0; height < kLevels; ++height) {
      if (((places.input_count >> height) & 1) == 0) continue;
      total = first ? level[height] : level[height] + total;
      first = false;
    }
    for (int o = 0; o < places.output_count; ++o) static_cast<T*>(places.outputs[o])[i] = Addend<T>::written(total);
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

}  // namespace

void run_tree_sum(CudaDevice& device, const TreeSum& sum, int64_t begin, int64_t end) {
  if (begin >= end) return;
  if (sum.inputs.size() == 1) return copy(device, sum, begin, end);
  Places places{};
  places.input_count = static_cast<int>(sum.inputs.size());
  places.output_count = static_cast<int>(sum.outputs.size());
  if (places.input_count > kMaxCudaTreeInputs)
    throw Error(ExitCode::device,
                device.name() + ": sums of at most 64 ranks are computed on GPUs; list fewer devices");
  std::ranges::copy(sum.inputs, places.inputs);
  std::ranges::copy(sum.outputs, places.outputs);
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
