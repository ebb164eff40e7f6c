#include "ops/residual_cpu.h"

#include <cmath>

#include "device/parallel_for.h"

namespace dptrain::ops::cpu {
namespace {

/// Elements below which another thread costs more than it brings.
constexpr int64_t kGrain = 16384;

float number(const Tensor& scale) { return scale.defined() ? *scale.data<float>() : 1.f; }

}  // namespace

void take_up_residual(const Tensor& residual, const Tensor& gradients, const Tensor& scale) {
  const float factor = number(scale);
  parallel_ranges(residual.device(), residual.storage_elements(), kGrain, [&](int64_t begin, int64_t end) {
    float* kept = residual.data<float>();
    const float* gradient = gradients.data<float>();
    for (int64_t i = begin; i < end; ++i) kept[i] = kept[i] * factor + gradient[i];
  });
}

void leave_residual(const Tensor& residual, const Tensor& sent, const Tensor& scale) {
  const float factor = number(scale);
  parallel_ranges(residual.device(), residual.storage_elements(), kGrain, [&](int64_t begin, int64_t end) {
    float* kept = residual.data<float>();
    const float* gone = sent.data<float>();
    for (int64_t i = begin; i < end; ++i) {
      const float left = kept[i] - gone[i], rest = std::isfinite(left) ? left : kept[i];
      kept[i] = std::isfinite(rest) ? rest / factor : 0.f;
    }
  });
}

}  // namespace dptrain::ops::cpu
