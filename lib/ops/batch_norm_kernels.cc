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

// The templates take chunks by value: a copy that nothing else points to stays in registers across stores.

template <int L>
void normalize_of(const BatchNormChunk chunk, const float* addend, float* y) {
  const Row<L> scale = load<L>(chunk.scale), shift = load<L>(chunk.shift);
  const float* x = chunk.x;
  const int64_t end = chunk.positions * L;
  if (addend != nullptr && chunk.relu) {
    for (int64_t i = 0; i < end; i += L) {
      const Row<L> value = load<L>(x + i) * scale + shift + load<L>(addend + i);
      store<L>(y + i, positive_part<L>(value));
    }
  } else if (chunk.relu) {
    for (int64_t i = 0; i < end; i += L) {
      const Row<L> value = load<L>(x + i) * scale + shift;
      store<L>(y + i, positive_part<L>(value));
    }
  } else {
    for (int64_t i = 0; i < end; i += L) {
      Row<L> value = load<L>(x + i) * scale + shift;
      if (addend != nullptr) value += load<L>(addend + i);
      store<L>(y + i, value);
    }
  }
}

/// Where the mask of the gradient comes from.
enum class Mask { none, output, recomputed };

inline Mask mask_of(const BatchNormChunkGradient& chunk) {
  if (!chunk.relu) return Mask::none;
  return chunk.y != nullptr ? Mask::output : Mask::recomputed;
}

template <int L, Mask kMask>
Row<L> masked(const BatchNormChunkGradient& chunk, int64_t i, Row<L> scale, Row<L> shift) {
  const Row<L> gradient = load<L>(chunk.incoming + i);
  if constexpr (kMask == Mask::output) return where_positive<L>(load<L>(chunk.y + i), gradient);
  if constexpr (kMask == Mask::recomputed) return where_positive<L>(load<L>(chunk.x + i) * scale + shift, gradient);
  return gradient;
}

template <int L, Mask kMask>
void gradient_sums_of(const BatchNormChunkGradient chunk, float* sum, float* dot) {
  const Row<L> scale = load<L>(chunk.scale), shift = load<L>(chunk.shift), mean = load<L>(chunk.mean);
  Row<L> sum0{}, sum1{}, dot0{}, dot1{};
  int64_t p = 0;
  for (; p + 2 <= chunk.positions; p += 2) {
    const int64_t i = p * L, j = i + L;
    const Row<L> a = masked<L, kMask>(chunk, i, scale, shift);
    const Row<L> b = masked<L, kMask>(chunk, j, scale, shift);
    sum0 += a, dot0 += a * (load<L>(chunk.x + i) - mean);
    sum1 += b, dot1 += b * (load<L>(chunk.x + j) - mean);
  }
  if (p < chunk.positions) {
    const Row<L> a = masked<L, kMask>(chunk, p * L, scale, shift);
    sum0 += a, dot0 += a * (load<L>(chunk.x + p * L) - mean);
  }
  store<L>(sum, sum0 + sum1);
  store<L>(dot, dot0 + dot1);
}

template <int L, Mask kMask>
void input_gradient_of(const BatchNormChunkGradient chunk, const float* mean_gradient_of_lane,
                       const float* slope_of_lane, float* out, float* residual_gradient) {
  const Row<L> scale = load<L>(chunk.scale), shift = load<L>(chunk.shift), mean = load<L>(chunk.mean);
  const Row<L> mean_gradient = load<L>(mean_gradient_of_lane), slope = load<L>(slope_of_lane);
  for (int64_t i = 0; i < chunk.positions * L; i += L) {
    const Row<L> gradient = masked<L, kMask>(chunk, i, scale, shift);
    if (residual_gradient != nullptr) store<L>(residual_gradient + i, gradient);
    store<L>(out + i, scale * (gradient - mean_gradient) + slope * (load<L>(chunk.x + i) - mean));
  }
}

// Blocks of 16 and 8 lanes take the loops above, and so do features, a row a sample, 16 at a time. Chunks of any other
// width (nhwc and plain images under a batch norm) are rare and take plain loops, lane by lane.

constexpr int64_t kBlock = 16;

bool is_wide_row(int64_t positions, int64_t lanes) { return positions == 1 && lanes > kBlock; }

/// Calls f(first, lanes) for the blocks of a wide row.
template <class F>
void for_each_block(int64_t lanes, const F& f) {
  for (int64_t lane = 0; lane < lanes; lane += kBlock) f(lane, lanes - lane < kBlock ? lanes - lane : kBlock);
}

BatchNormChunk block_of(BatchNormChunk row, int64_t first, int64_t lanes) {
  row.x += first, row.scale += first, row.shift += first;
  row.lanes = lanes;
  return row;
}

BatchNormChunkGradient block_of(const BatchNormChunkGradient& row, int64_t first, int64_t lanes) {
  return {block_of(static_cast<const BatchNormChunk&>(row), first, lanes), row.y != nullptr ? row.y + first : nullptr,
          row.incoming + first, row.mean + first};
}

void statistics(const float* x, int64_t positions, int64_t lanes, float* mean, float* squares) {
  if (lanes == 16) return statistics_of<16>(x, positions, mean, squares);
  if (lanes == 8) return statistics_of<8>(x, positions, mean, squares);
  if (is_wide_row(positions, lanes))
    return for_each_block(lanes, [&](int64_t first, int64_t width) {
      statistics(x + first, positions, width, mean + first, squares + first);
    });
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

void normalize(const BatchNormChunk& chunk, const BatchNormAddend& addend, float* y) {
  const bool is_lane_by_lane = addend.rows == nullptr || addend.lanes == chunk.lanes;
  if (chunk.lanes == 16 && is_lane_by_lane) return normalize_of<16>(chunk, addend.rows, y);
  if (chunk.lanes == 8 && is_lane_by_lane) return normalize_of<8>(chunk, addend.rows, y);
  if (is_wide_row(chunk.positions, chunk.lanes) && is_lane_by_lane)
    return for_each_block(chunk.lanes, [&](int64_t first, int64_t lanes) {
      const BatchNormAddend of_block = {.rows = addend.rows != nullptr ? addend.rows + first : nullptr, .lanes = lanes};
      normalize(block_of(chunk, first, lanes), of_block, y + first);
    });
  for (int64_t p = 0; p < chunk.positions; ++p) {
    for (int64_t lane = 0; lane < chunk.lanes; ++lane) {
      const int64_t i = p * chunk.lanes + lane;
      float value = chunk.x[i] * chunk.scale[lane] + chunk.shift[lane];
      if (addend.rows != nullptr && lane < addend.lanes) value += addend.rows[p * addend.lanes + lane];
      y[i] = chunk.relu && value <= 0.f ? 0.f : value;
    }
  }
}

float masked_float(const BatchNormChunkGradient& chunk, Mask mask, int64_t lane, int64_t i) {
  const float gradient = chunk.incoming[i];
  if (mask == Mask::output) return chunk.y[i] > 0.f ? gradient : 0.f;
  if (mask == Mask::recomputed) return chunk.x[i] * chunk.scale[lane] + chunk.shift[lane] > 0.f ? gradient : 0.f;
  return gradient;
}

template <int L>
void gradient_sums_of_block(const BatchNormChunkGradient& chunk, float* sum, float* dot) {
  switch (mask_of(chunk)) {
    case Mask::none: return gradient_sums_of<L, Mask::none>(chunk, sum, dot);
    case Mask::output: return gradient_sums_of<L, Mask::output>(chunk, sum, dot);
    case Mask::recomputed: return gradient_sums_of<L, Mask::recomputed>(chunk, sum, dot);
  }
}

void gradient_sums(const BatchNormChunkGradient& chunk, float* sum, float* dot) {
  if (chunk.lanes == 16) return gradient_sums_of_block<16>(chunk, sum, dot);
  if (chunk.lanes == 8) return gradient_sums_of_block<8>(chunk, sum, dot);
  if (is_wide_row(chunk.positions, chunk.lanes))
    return for_each_block(chunk.lanes, [&](int64_t first, int64_t lanes) {
      gradient_sums(block_of(chunk, first, lanes), sum + first, dot + first);
    });
  const Mask mask = mask_of(chunk);
  for (int64_t lane = 0; lane < chunk.lanes; ++lane) {
    sum[lane] = dot[lane] = 0;
    for (int64_t p = 0; p < chunk.positions; ++p) {
      const int64_t i = p * chunk.lanes + lane;
      const float gradient = masked_float(chunk, mask, lane, i);
      sum[lane] += gradient;
      dot[lane] += gradient * (chunk.x[i] - chunk.mean[lane]);
    }
  }
}

template <int L>
void input_gradient_of_block(const BatchNormChunkGradient& chunk, const float* mean_gradient, const float* slope,
                             float* out, float* residual) {
  switch (mask_of(chunk)) {
    case Mask::none: return input_gradient_of<L, Mask::none>(chunk, mean_gradient, slope, out, residual);
    case Mask::output: return input_gradient_of<L, Mask::output>(chunk, mean_gradient, slope, out, residual);
    case Mask::recomputed: return input_gradient_of<L, Mask::recomputed>(chunk, mean_gradient, slope, out, residual);
  }
}

void input_gradient(const BatchNormChunkGradient& chunk, const float* mean_gradient, const float* slope, float* out,
                    float* residual) {
  if (chunk.lanes == 16) return input_gradient_of_block<16>(chunk, mean_gradient, slope, out, residual);
  if (chunk.lanes == 8) return input_gradient_of_block<8>(chunk, mean_gradient, slope, out, residual);
  if (is_wide_row(chunk.positions, chunk.lanes))
    return for_each_block(chunk.lanes, [&](int64_t first, int64_t lanes) {
      input_gradient(block_of(chunk, first, lanes), mean_gradient + first, slope + first, out + first,
                     residual != nullptr ? residual + first : nullptr);
    });
  const Mask mask = mask_of(chunk);
  for (int64_t p = 0; p < chunk.positions; ++p) {
    for (int64_t lane = 0; lane < chunk.lanes; ++lane) {
      const int64_t i = p * chunk.lanes + lane;
      const float gradient = masked_float(chunk, mask, lane, i);
      if (residual != nullptr) residual[i] = gradient;
      out[i] = chunk.scale[lane] * (gradient - mean_gradient[lane]) + slope[lane] * (chunk.x[i] - chunk.mean[lane]);
    }
  }
}

}  // namespace

extern const BatchNormKernels kBatchNorm;
const BatchNormKernels kBatchNorm = {statistics, normalize, gradient_sums, input_gradient};

}  // namespace dptrain::ops::DPTRAIN_ISA_NAMESPACE
