#include "ops/cuda_kernels.h"
#include "ops/residual_cuda.h"

// Bound by memory: 12 bytes per element.

namespace dptrain::ops::cuda {
namespace {

__global__ void take_up_kernel(float* residual, const float* gradients, const float* scale, int64_t count) {
  const float factor = scale != nullptr ? *scale : 1.f;
  for (int64_t i = global_thread(); i < count; i += global_threads()) residual[i] = residual[i] * factor + gradients[i];
}

__global__ void leave_kernel(float* residual, const float* sent, const float* scale, int64_t count) {
  const float factor = scale != nullptr ? *scale : 1.f;
  for (int64_t i = global_thread(); i < count; i += global_threads()) {
    const float left = residual[i] - sent[i], rest = isfinite(left) ? left : residual[i];
    residual[i] = isfinite(rest) ? rest / factor : 0.f;
  }
}

}  // namespace

void take_up_residual(const Tensor& residual, const Tensor& gradients, const Tensor& scale) {
  const int64_t count = residual.storage_elements();
  if (count > 0)
    launch("take_up_residual", residual, blocks_for(residual, count), kThreads, take_up_kernel, residual.data<float>(),
           gradients.data<float>(), data_or_null<float>(scale), count);
}

void leave_residual(const Tensor& residual, const Tensor& sent, const Tensor& scale) {
  const int64_t count = residual.storage_elements();
  if (count > 0)
    launch("leave_residual", residual, blocks_for(residual, count), kThreads, leave_kernel, residual.data<float>(),
           sent.data<float>(), data_or_null<float>(scale), count);
}

}  // namespace dptrain::ops::cuda
