#include "ops/layer_norm_kernels.h"

#include "ops/vector_lanes.h"

// Compiled once for each instruction set, see cmake/DptrainKernels.cmake. A row of 768 floats is 3 KB: what one pass
// over it reads, the next ones find in the first-level cache.

namespace dptrain::ops::DPTRAIN_ISA_NAMESPACE {
namespace {

// These loops are functions of their own, because the compiler trusts restricted arguments not to overlap.

void add_to_row(const float* residual, float* __restrict sum, int64_t width) {
  for (int64_t i = 0; i < width; ++i) sum[i] += residual[i];
}

void add_rows(const float* x, const float* residual, float* __restrict sum, int64_t width) {
  for (int64_t i = 0; i < width; ++i) sum[i] = x[i] + residual[i];
}

void mask_row(const float* x, const uint8_t* mask, float scale, float* __restrict y, int64_t width) {
  for (int64_t i = 0; i < width; ++i) y[i] = mask[i] != 0 ? x[i] * scale : 0.f;
}

void add_to_sums(const float* x, const float* incoming, float mean, float inverse, float* __restrict gamma_sums,
                 float* __restrict beta_sums, int64_t width) {
  for (int64_t i = 0; i < width; ++i) {
    gamma_sums[i] += incoming[i] * ((x[i] - mean) * inverse);
    beta_sums[i] += incoming[i];
  }
}

void forward(const LayerNormKernels::Forward& rows, int64_t count, int64_t width) {
  const float* __restrict gamma = rows.gamma, * __restrict beta = rows.beta;
  for (int64_t row = 0; row < count; ++row) {
    const float* x = rows.x + row * width;
    if (rows.residual != nullptr) {
      const float* residual = rows.residual + row * width;
      float* sum = rows.sum + row * width;
      if (rows.mask != nullptr) {
        mask_row(x, rows.mask + row * width, rows.scale, sum, width);
        add_to_row(residual, sum, width);
      } else {
        add_rows(x, residual, sum, width);
      }
      x = sum;
    }
    const float mean = sum_over(width, [&](auto read, int64_t i) { return read(x + i); }) / static_cast<float>(width);
    const float squares = sum_over(width, [&](auto read, int64_t i) {
      const auto distance = read(x + i) - mean;
      return distance * distance;
    });
    const float inverse = 1.f / __builtin_sqrtf(squares / static_cast<float>(width) + rows.epsilon);
    float* __restrict y = rows.y + row * width;
    for (int64_t i = 0; i < width; ++i) y[i] = (x[i] - mean) * inverse * gamma[i] + beta[i];
    rows.mean[row] = mean;
    rows.inverse_deviation[row] = inverse;
  }
}

void backward(const LayerNormKernels::Backward& rows, int64_t count, int64_t width) {
  const float* __restrict gamma = rows.gamma;
  for (int64_t i = 0; i < width; ++i) rows.gamma_sums[i] = rows.beta_sums[i] = 0;
  for (int64_t row = 0; row < count; ++row) {
    const float *x = rows.x + row * width, *incoming = rows.incoming + row * width;
    const float mean = rows.mean[row], inverse = rows.inverse_deviation[row];
    // With g = incoming * gamma and xhat = (x - mean) * inverse: dx = inverse * (g - mean(g) - xhat * mean(g * xhat)).
    const float per_element = 1.f / static_cast<float>(width);
    const float mean_gradient =
        per_element * sum_over(width, [&](auto read, int64_t i) { return read(incoming + i) * read(gamma + i); });
    const float slope = per_element * inverse * sum_over(width, [&](auto read, int64_t i) {
                          return read(incoming + i) * read(gamma + i) * (read(x + i) - mean);
                        });
    float* __restrict gradient = rows.gradient + row * width;
    for (int64_t i = 0; i < width; ++i) {
      const float normalized = (x[i] - mean) * inverse;
      gradient[i] = inverse * (incoming[i] * gamma[i] - mean_gradient - normalized * slope);
    }
    add_to_sums(x, incoming, mean, inverse, rows.gamma_sums, rows.beta_sums, width);
    if (rows.mask != nullptr)
      mask_row(gradient, rows.mask + row * width, rows.scale, rows.masked_gradient + row * width, width);
  }
}

}  // namespace

extern const LayerNormKernels kLayerNorm;
const LayerNormKernels kLayerNorm = {forward, backward};

}  // namespace dptrain::ops::DPTRAIN_ISA_NAMESPACE
