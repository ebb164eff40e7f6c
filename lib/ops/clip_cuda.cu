#include "ops/clip.h"
#include "ops/clip_cuda.h"
#include "ops/cuda_kernels.h"
#include "ops/square_digits.h"

namespace dptrain::ops::cuda {
namespace {

__global__ void clip_kernel(const double* squares, double most, const float* factor, float* clip) {
  const double before = factor != nullptr ? *factor : 1;
  const double share = most / (before * sqrt(rounded_square_sum(squares)) + kClipEpsilon);
  *clip = static_cast<float>(before * (share < 1 ? share : 1));
}

}  // namespace

Tensor clip_factor(const Tensor& squares, double most, const Tensor& factor) {
  const Tensor clip = Tensor::empty(squares.device(), {1}, {.purpose = MemoryPurpose::workspace});
  launch("clip", squares, 1, 1, clip_kernel, squares.data<double>(), most, data_or_null<float>(factor),
         clip.data<float>());
  return clip;
}

}  // namespace dptrain::ops::cuda
