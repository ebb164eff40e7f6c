#include "ops/block_sum_cuda.h"
#include "ops/clip.h"
#include "ops/clip_cuda.h"

// Reads 4 bytes a gradient; the blocks' sums lie in the order of their elements, and one block folds them.

namespace dptrain::ops::cuda {
namespace {

__global__ void squares_kernel(const float* gradients, int64_t count, double* runs) {
  double own = 0;
  const int64_t begin = blockIdx.x * kRun, end = begin + kRun < count ? begin + kRun : count;
  for (int64_t i = begin + threadIdx.x; i < end; i += kThreads) {
    const double gradient = gradients[i];
    own += gradient * gradient;
  }
  const double sum = sum_of_block(own);
  if (threadIdx.x == 0) runs[blockIdx.x] = sum;
}

__global__ void fold_squares_kernel(const double* runs, int64_t count, double* squares) {
  double own = 0;
  for (int64_t i = threadIdx.x; i < count; i += kThreads) own += runs[i];
  const double sum = sum_of_block(own);
  if (threadIdx.x == 0) *squares = sum;
}

__global__ void clip_kernel(const double* squares, double most, const float* factor, float* clip) {
  const double before = factor != nullptr ? *factor : 1, share = most / (before * sqrt(*squares) + kClipEpsilon);
  *clip = static_cast<float>(before * (share < 1 ? share : 1));
}

}  // namespace

Tensor sum_of_squares(const Tensor& gradients) {
  const int64_t count = gradients.storage_elements(), blocks = (count + kRun - 1) / kRun;
  const TensorOptions sums{.dtype = DType::f64, .purpose = MemoryPurpose::workspace};
  const Tensor runs = Tensor::empty(gradients.device(), {blocks}, sums);
  const Tensor squares = Tensor::empty(gradients.device(), {1}, sums);
  if (blocks > 0)
    launch("squares", gradients, static_cast<unsigned>(blocks), kThreads, squares_kernel, gradients.data<float>(),
           count, runs.data<double>());
  launch("fold_squares", gradients, 1, kThreads, fold_squares_kernel, runs.data<double>(), blocks,
         squares.data<double>());
  return squares;
}

Tensor clip_factor_of(const Tensor& squares, double most, const Tensor& factor) {
  const Tensor clip = Tensor::empty(squares.device(), {1}, {.purpose = MemoryPurpose::workspace});
  launch("clip", squares, 1, 1, clip_kernel, squares.data<double>(), most, data_or_null<float>(factor),
         clip.data<float>());
  return clip;
}

}  // namespace dptrain::ops::cuda
