#include "ops/residual_cpu.h"

#include "device/parallel_for.h"
#include "ops/compression_kernels.h"

namespace dptrain::ops::cpu {
namespace {

/// Below this many elements another thread costs more than it saves.
constexpr int64_t kGrain = 16384;

float number(const Tensor& scale) { return scale.defined() ? *scale.data<float>() : 1.f; }

}  // namespace

void take_up_residual(const Tensor& residual, const Tensor& gradients, const Tensor& scale) {
  const float factor = number(scale);
  parallel_ranges(residual.device(), residual.storage_elements(), kGrain, [&](int64_t begin, int64_t end) {
    compression_kernels().take_up_residual(residual.data<float>() + begin, gradients.data<float>() + begin, factor,
                                           end - begin);
  });
}

void leave_residual(const Tensor& residual, const Tensor& sent, const Tensor& scale) {
  const float factor = number(scale);
  parallel_ranges(residual.device(), residual.storage_elements(), kGrain, [&](int64_t begin, int64_t end) {
    compression_kernels().leave_residual(residual.data<float>() + begin, sent.data<float>() + begin, factor,
                                         end - begin);
  });
}

}  // namespace dptrain::ops::cpu
