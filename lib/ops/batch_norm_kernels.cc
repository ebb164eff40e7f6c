#include "ops/batch_norm_kernels.h"

#include "ops/vector_lanes.h"

// Compiled once for each instruction set, see cmake/DptrainKernels.cmake.
//
// Bytes a float of x, at 4 bytes each: statistics read 1; normalize reads 1 (2 with a residual) and writes 1;
// gradient_sums read 2 (3 where the mask comes from y); input_gradient reads 2 (3) and writes 1 (2). A chunk of 28 x 28
// positions and 16 lanes is 50 KB: what one kernel leaves in the second-level cache the next one finds there.

namespace dptrain::ops::DPTRAIN_ISA_NAMESPACE {
namespace {

template <int L>
Row<L> where_positive(Row<L> y, Row<L> value) {
  return y > 0.f ? value : Row<L>{};
}

/// max(0, y); a NaN stays one, so that it is seen in the loss.
template <int L>
Row<L> positive_part(Row<L> y) {
  return y <= 0.f ? Row<L>{} : y;
}

template <int L>
void statistics_of(const float* x, int64_t positions, float* mean, float* squares) {
  // Shifted by the first row, so that a large mean doesn't cancel. Two accumulators hide the latency of additions.
  const Row<L> shift = load<L>(x);
  Row<L> sum0{}, sum1{}, square0{}, square1{};
  int64_t p = 0;
  for (; p + 2 <= positions; p += 2) {
    const Row<L> a = load<L>(x + p * L) - shift, b = load<L>(x + (p + 1) * L) - shift;
    sum0 += a, square0 += a * a;
    sum1 += b, square1 += b * b;
  }
  if (p < positions) {
    const Row<L> a = load<L>(x + p * L) - shift;
    sum0 += a, square0 += a * a;
  }
  const Row<L> sum = sum0 + sum1;
  const Row<L> shifted_mean = sum / static_cast<float>(positions);
  store<L>(mean, shift + shifted_mean);
  const Row<L> centred = square0 + square1 - sum * shifted_mean;
  store<L>(squares, where_positive<L>(centred, centred));
}

template <int L>
void normalize_of(const float* x, const float* residual, int64_t positions, const float* scale_of_lane,
                  const float* shift_of_lane, bool relu, float* y) {
  const Row<L> scale = load<L>(scale_of_lane), shift = load<L>(shift_of_lane);
  const int64_t end = positions * L;
  if (residual != nullptr && relu) {
    for (int64_t i = 0; i < end; i += L) {
      const Row<L> value = load<L>(x + i) * scale + shift + load<L>(residual + i);
      store<L>(y + i, positive_part<L>(value));
    }
  } else if (relu) {
    for (int64_t i = 0; i < end; i += L) {
      const Row<L> value = load<L>(x + i) * scale + shift;
      store<L>(y + i, positive_part<L>(value));
    }
  } else {
    for (int64_t i = 0; i < end; i += L) {
      Row<L> value = load<L>(x + i) * scale + shift;
      if (residual != nullptr) value += load<L>(residual + i);
      store<L>(y + i, value);
    }
  }
}

/// Where the mask of the gradient comes from.
enum class Mask { none, output, recomputed };

inline Mask mask_of(const float* y, bool relu) {
  if (!relu) return Mask::none;
  return y != nullptr ? Mask::output : Mask::recomputed;
}

template <int L, Mask kMask>
Row<L> masked(const float* x, const float* y, const float* incoming, int64_t i, Row<L> scale, Row<L> shift) {
  const Row<L> gradient = load<L>(incoming + i);
  if constexpr (kMask == Mask::output) return where_positive<L>(load<L>(y + i), gradient);
  if constexpr (kMask == Mask::recomputed) return where_positive<L>(load<L>(x + i) * scale + shift, gradient);
  return gradient;
}

template <int L, Mask kMask>
void gradient_sums_of(const float* x, const float* y, const float* incoming, int64_t positions,
                      const float* scale_of_lane, const float* shift_of_lane, const float* mean_of_lane, float* sum,
                      float* dot) {
  const Row<L> scale = load<L>(scale_of_lane), shift = load<L>(shift_of_lane), mean = load<L>(mean_of_lane);
  Row<L> sum0{}, sum1{}, dot0{}, dot1{};
  int64_t p = 0;
  for (; p + 2 <= positions; p += 2) {
    const int64_t i = p * L, j = i + L;
    const Row<L> a = masked<L, kMask>(x, y, incoming, i, scale, shift);
    const Row<L> b = masked<L, kMask>(x, y, incoming, j, scale, shift);
    sum0 += a, dot0 += a * (load<L>(x + i) - mean);
    sum1 += b, dot1 += b * (load<L>(x + j) - mean);
  }
  if (p < positions) {
    const Row<L> a = masked<L, kMask>(x, y, incoming, p * L, scale, shift);
    sum0 += a, dot0 += a * (load<L>(x + p * L) - mean);
  }
  store<L>(sum, sum0 + sum1);
  store<L>(dot, dot0 + dot1);
}

template <int L, Mask kMask>
void input_gradient_of(const float* x, const float* y, const float* incoming, int64_t positions,
                       const float* scale_of_lane, const float* shift_of_lane, const float* mean_of_lane,
                       const float* mean_gradient_of_lane, const float* slope_of_lane, float* out,
                       float* residual_gradient) {
  const Row<L> scale = load<L>(scale_of_lane), shift = load<L>(shift_of_lane), mean = load<L>(mean_of_lane);
  const Row<L> mean_gradient = load<L>(mean_gradient_of_lane), slope = load<L>(slope_of_lane);
  for (int64_t i = 0; i < positions * L; i += L) {
    const Row<L> gradient = masked<L, kMask>(x, y, incoming, i, scale, shift);
    if (residual_gradient != nullptr) store<L>(residual_gradient + i, gradient);
    store<L>(out + i, scale * (gradient - mean_gradient) + slope * (load<L>(x + i) - mean));
  }
}

// Blocks of 16 and 8 lanes take the loops above. Chunks of any other width (nhwc and plain images under a batch norm)
// are rare and take plain loops, lane by lane.

void statistics(const float* x, int64_t positions, int64_t lanes, float* mean, float* squares) {
  if (lanes == 16) return statistics_of<16>(x, positions, mean, squares);
  if (lanes == 8) return statistics_of<8>(x, positions, mean, squares);
  for (int64_t lane = 0; lane < lanes; ++lane) {
    const float shift = x[lane];
    float sum = 0, square = 0;
    for (int64_t p = 0; p < positions; ++p) {
      const float value = x[p * lanes + lane] - shift;
      sum += value, square += value * value;
    }
    const float shifted_mean = sum / static_cast<float>(positions);
    const float centred = square - sum * shifted_mean;
    mean[lane] = shift + shifted_mean;
    squares[lane] = centred > 0.f ? centred : 0.f;
  }
}

void normalize(const float* x, const float* residual, int64_t residual_lanes, int64_t positions, int64_t lanes,
               const float* scale, const float* shift, bool relu, float* y) {
  const bool is_lane_by_lane = residual == nullptr || residual_lanes == lanes;
  if (lanes == 16 && is_lane_by_lane) return normalize_of<16>(x, residual, positions, scale, shift, relu, y);
  if (lanes == 8 && is_lane_by_lane) return normalize_of<8>(x, residual, positions, scale, shift, relu, y);
  for (int64_t p = 0; p < positions; ++p) {
    for (int64_t lane = 0; lane < lanes; ++lane) {
      const int64_t i = p * lanes + lane;
      float value = x[i] * scale[lane] + shift[lane];
      if (residual != nullptr && lane < residual_lanes) value += residual[p * residual_lanes + lane];
      y[i] = relu && value <= 0.f ? 0.f : value;
    }
  }
}

float masked_float(const float* x, const float* y, const float* incoming, int64_t i, float scale, float shift,
                   Mask mask) {
  if (mask == Mask::output) return y[i] > 0.f ? incoming[i] : 0.f;
  if (mask == Mask::recomputed) return x[i] * scale + shift > 0.f ? incoming[i] : 0.f;
  return incoming[i];
}

template <int L>
void gradient_sums_of_block(const float* x, const float* y, const float* incoming, int64_t positions,
                            const float* scale, const float* shift, const float* mean, Mask mask, float* sum,
                            float* dot) {
  switch (mask) {
    case Mask::none: return gradient_sums_of<L, Mask::none>(x, y, incoming, positions, scale, shift, mean, sum, dot);
    case Mask::output:
      return gradient_sums_of<L, Mask::output>(x, y, incoming, positions, scale, shift, mean, sum, dot);
    case Mask::recomputed:
      return gradient_sums_of<L, Mask::recomputed>(x, y, incoming, positions, scale, shift, mean, sum, dot);
  }
}

void gradient_sums(const float* x, const float* y, const float* incoming, int64_t positions, int64_t lanes,
                   const float* scale, const float* shift, const float* mean, bool relu, float* sum, float* dot) {
  const Mask mask = mask_of(y, relu);
  if (lanes == 16) return gradient_sums_of_block<16>(x, y, incoming, positions, scale, shift, mean, mask, sum, dot);
  if (lanes == 8) return gradient_sums_of_block<8>(x, y, incoming, positions, scale, shift, mean, mask, sum, dot);
  for (int64_t lane = 0; lane < lanes; ++lane) {
    sum[lane] = dot[lane] = 0;
    for (int64_t p = 0; p < positions; ++p) {
      const int64_t i = p * lanes + lane;
      const float gradient = masked_float(x, y, incoming, i, scale[lane], shift[lane], mask);
      sum[lane] += gradient;
      dot[lane] += gradient * (x[i] - mean[lane]);
    }
  }
}

template <int L>
void input_gradient_of_block(const float* x, const float* y, const float* incoming, int64_t positions,
                             const float* scale, const float* shift, const float* mean, const float* mean_gradient,
                             const float* slope, Mask mask, float* out, float* residual) {
  switch (mask) {
    case Mask::none:
      return input_gradient_of<L, Mask::none>(x, y, incoming, positions, scale, shift, mean, mean_gradient, slope, out,
                                              residual);
    case Mask::output:
      return input_gradient_of<L, Mask::output>(x, y, incoming, positions, scale, shift, mean, mean_gradient, slope,
                                                out, residual);
    case Mask::recomputed:
      return input_gradient_of<L, Mask::recomputed>(x, y, incoming, positions, scale, shift, mean, mean_gradient, slope,
                                                    out, residual);
  }
}

void input_gradient(const float* x, const float* y, const float* incoming, int64_t positions, int64_t lanes,
                    const float* scale, const float* shift, const float* mean, const float* mean_gradient,
                    const float* slope, bool relu, float* out, float* residual) {
  const Mask mask = mask_of(y, relu);
  if (lanes == 16)
    return input_gradient_of_block<16>(x, y, incoming, positions, scale, shift, mean, mean_gradient, slope, mask, out,
                                       residual);
  if (lanes == 8)
    return input_gradient_of_block<8>(x, y, incoming, positions, scale, shift, mean, mean_gradient, slope, mask, out,
                                      residual);
  for (int64_t p = 0; p < positions; ++p) {
    for (int64_t lane = 0; lane < lanes; ++lane) {
      const int64_t i = p * lanes + lane;
      const float gradient = masked_float(x, y, incoming, i, scale[lane], shift[lane], mask);
      if (residual != nullptr) residual[i] = gradient;
      out[i] = scale[lane] * (gradient - mean_gradient[lane]) + slope[lane] * (x[i] - mean[lane]);
    }
  }
}

}  // namespace

extern const BatchNormKernels kBatchNorm;
const BatchNormKernels kBatchNorm = {statistics, normalize, gradient_sums, input_gradient};

}  // namespace dptrain::ops::DPTRAIN_ISA_NAMESPACE
