#include "ops/block_sum_cuda.h"
#include "ops/two_bit_cuda.h"

// Bound by memory: encoding takes 4.25 bytes per element, decoding 4 bytes and a quarter for each rank.

namespace dptrain::ops::cuda {
namespace {

constexpr int kLevels = 11;  // of the tree over all ranks
static_assert(kMostTwoBitRanks < 1 << kLevels);
constexpr int kValues = static_cast<int>(kTwoBitValues);

/// squares[block] = the sum of the squares in the block's run of elements.
__global__ void squares_kernel(const float* values, int64_t count, double* squares) {
  double own = 0;
  const int64_t begin = blockIdx.x * kRun, end = begin + kRun < count ? begin + kRun : count;
  for (int64_t i = begin + threadIdx.x; i < end; i += kThreads) {
    const double value = values[i];
    own += value * value;
  }
  const double sum = sum_of_block(own);
  if (threadIdx.x == 0) squares[blockIdx.x] = sum;
}

/// Folds the sums of all `runs` in one block, and computes the threshold.
__global__ void threshold_kernel(const double* squares, int64_t runs, double elements, double share, float* threshold) {
  double own = 0;
  for (int64_t i = threadIdx.x; i < runs; i += kThreads) own += squares[i];
  const double sum = sum_of_block(own);
  if (threadIdx.x == 0) *threshold = static_cast<float>(share * sqrt(sum / elements));
}

__device__ unsigned code_of(float value, float threshold) {
  if (!isfinite(value)) return 3;
  return value >= threshold ? 1 : value <= -threshold ? 2 : 0;
}

__global__ void encode_kernel(const float* values, int64_t count, const float* threshold, int32_t* words,
                              int64_t word_count) {
  const float t = *threshold;
  for (int64_t word = global_thread(); word < word_count; word += global_threads()) {
    unsigned bits = 0;
    for (int k = 0; k < kValues; ++k) {
      const int64_t i = word * kValues + k;
      if (i < count) bits |= code_of(values[i], t) << (2 * k);
    }
    words[word] = static_cast<int32_t>(bits);
  }
}

__device__ float value_of(int32_t word, int place, float threshold) {
  switch (static_cast<unsigned>(word) >> (2 * place) & 3) {
    case 0: return 0.f;
    case 1: return threshold;
    case 2: return -threshold;
    default: return __uint_as_float(0x7fc00000u);
  }
}

/// Adds up the ranks' values in the order of the balanced tree, as a binary counter; see tree_sum_cuda.cu.
__global__ void decode_kernel(const int32_t* words, const float* thresholds, int ranks, int64_t stride, float* sum,
                              int64_t count) {
  for (int64_t i = global_thread(); i < count; i += global_threads()) {
    float level[kLevels];
    for (int r = 0; r < ranks; ++r) {
      float part = value_of(words[r * stride + i / kValues], static_cast<int>(i % kValues), thresholds[r * stride]);
      int height = 0;
      for (; (r >> height) & 1; ++height) part = level[height] + part;
      level[height] = part;
    }
    float total = 0;
    bool first = true;
    for (int height = 0; height < kLevels; ++height) {
      if (((ranks >> height) & 1) == 0) continue;
      total = first ? level[height] : level[height] + total;
      first = false;
    }
    sum[i] = total;
  }
}

}  // namespace

void two_bit_threshold(const Tensor& values, double share, const Tensor& threshold) {
  const int64_t count = values.storage_elements(), runs = (count + kRun - 1) / kRun, elements = values.elements();
  const Tensor squares =
      Tensor::empty(values.device(), {runs}, {.dtype = DType::f64, .purpose = MemoryPurpose::workspace});
  if (runs > 0)
    launch("squares", values, static_cast<unsigned>(runs), kThreads, squares_kernel, values.data<float>(), count,
           squares.data<double>());
  launch("two_bit_threshold", values, 1, kThreads, threshold_kernel, squares.data<double>(), runs,
         static_cast<double>(elements > 0 ? elements : 1), share, threshold.data<float>());
}

void two_bit_encode(const Tensor& values, const Tensor& threshold, const Tensor& words) {
  if (words.elements() == 0) return;
  launch("two_bit_encode", values, blocks_for(values, words.elements()), kThreads, encode_kernel, values.data<float>(),
         values.storage_elements(), threshold.data<float>(), words.data<int32_t>(), words.elements());
}

void two_bit_decode(const TwoBitMessages& messages, const Tensor& sum) {
  const int64_t count = sum.storage_elements();
  if (count == 0) return;
  launch("two_bit_decode", sum, blocks_for(sum, count), kThreads, decode_kernel, messages.words.data<int32_t>(),
         messages.thresholds.data<float>(), static_cast<int>(messages.ranks), messages.stride, sum.data<float>(),
         count);
}

}  // namespace dptrain::ops::cuda
