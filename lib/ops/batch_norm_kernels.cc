#include "ops/batch_norm_kernels.h"

#include "ops/vector_lanes.h"

// Compiled once for each instruction set, see cmake/DptrainKernels.cmake.
//
// Memory traffic per float of x, in units of 4 bytes: statistics reads 1; normalize reads 1 (2 with a residual) and
// writes 1; gradient_sums reads 2 (3 if the mask comes from y); input_gradient reads 2 (3) and writes 1 (2). A chunk of
// 28 x 28 positions and 16 lanes is 50 KB: what one kernel leaves in the second-level cache, the next one finds there.

namespace dptrain::ops::DPTRAIN_ISA_NAMESPACE {
namespace {

template <int L>
Row<L> where_positive(Row<L> y, Row<L> value) {
  return y > 0.f ? value : Row<L>{};
}

/// max(0, y); NaN stays NaN, so that it shows in the loss.
template <int L>
Row<L> positive_part(Row<L> y) {
  return y <= 0.f ? Row<L>{} : y;
}

// Chunks are split into blocks of a register's lanes, or of kFewest lanes if there are fewer, with rows `stride` floats
// apart. A block of channels has one or a few of them; nhwc rows and feature vectors have many. Chunks with fewer than
// kFewest lanes (plain images, nhwc with few channels) are rare and use plain loops.
constexpr int kFewest = 8;

template <int L, class Of>
void for_blocks_of(int64_t lanes, const Of& of) {
  int64_t first = 0;
  for (; first + L <= lanes; first += L) of.template operator()<L>(first);
  // The last block ends with the last lane. Lanes that it computes again get the same values.
  if (first < lanes) of.template operator()<L>(lanes - L);
}

/// Calls of<L>(first) for blocks of L lanes that cover all lanes; returns false if there are too few lanes.
template <class Of>
bool for_each_block(int64_t lanes, const Of& of) {
  if (lanes < kFewest) return false;
  if (lanes >= kRegisterLanes)
    for_blocks_of<kRegisterLanes>(lanes, of);
  else if constexpr (kRegisterLanes > kFewest)
    for_blocks_of<kFewest>(lanes, of);
  return true;
}

template <int L>
void statistics_of(const float* x, int64_t positions, int64_t stride, float* mean, float* squares) {
  // Shift by the first row, so that a large mean doesn't cancel. Two accumulators hide the latency of additions.
  const Row<L> shift = load<L>(x);
  Row<L> sum0{}, sum1{}, square0{}, square1{};
  int64_t p = 0;
  for (; p + 2 <= positions; p += 2) {
    const Row<L> a = load<L>(x + p * stride) - shift, b = load<L>(x + (p + 1) * stride) - shift;
    sum0 += a, square0 += a * a;
    sum1 += b, square1 += b * b;
  }
  if (p < positions) {
    const Row<L> a = load<L>(x + p * stride) - shift;
    sum0 += a, square0 += a * a;
  }
  const Row<L> sum = sum0 + sum1;
  const Row<L> shifted_mean = sum / static_cast<float>(positions);
  store<L>(mean, shift + shifted_mean);
  const Row<L> centred = square0 + square1 - sum * shifted_mean;
  store<L>(squares, where_positive<L>(centred, centred));
}

// The templates take chunks by value: a copy that nothing points to stays in registers across stores.

/// Normalizes the lanes from `first` on, and adds the addend's if there is one.
template <int L>
void normalize_of(const BatchNormChunk chunk, int64_t first, const BatchNormAddend addend, float* y) {
  const Row<L> scale = load<L>(chunk.scale + first), shift = load<L>(chunk.shift + first);
  const float *x = chunk.x + first, *added = addend.rows != nullptr ? addend.rows + first : nullptr;
  y += first;
  const int64_t stride = chunk.lanes, end = chunk.positions * stride;
  if (added != nullptr && chunk.relu) {
    for (int64_t i = 0; i < end; i += stride, added += addend.lanes) {
      const Row<L> value = load<L>(x + i) * scale + shift + load<L>(added);
      store<L>(y + i, positive_part<L>(value));
    }
  } else if (added != nullptr) {
    for (int64_t i = 0; i < end; i += stride, added += addend.lanes)
      store<L>(y + i, load<L>(x + i) * scale + shift + load<L>(added));
  } else if (chunk.relu) {
    for (int64_t i = 0; i < end; i += stride) store<L>(y + i, positive_part<L>(load<L>(x + i) * scale + shift));
  } else {
    for (int64_t i = 0; i < end; i += stride) store<L>(y + i, load<L>(x + i) * scale + shift);
  }
}

/// The source of the gradient's mask.
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
void gradient_sums_of(const BatchNormChunkGradient chunk, int64_t first, float* sum, float* dot) {
  const Row<L> scale = load<L>(chunk.scale + first), shift = load<L>(chunk.shift + first);
  const Row<L> mean = load<L>(chunk.mean + first);
  Row<L> sum0{}, sum1{}, dot0{}, dot1{};
  int64_t p = 0;
  for (; p + 2 <= chunk.positions; p += 2) {
    const int64_t i = p * chunk.lanes + first, j = i + chunk.lanes;
    const Row<L> a = masked<L, kMask>(chunk, i, scale, shift);
    const Row<L> b = masked<L, kMask>(chunk, j, scale, shift);
    sum0 += a, dot0 += a * (load<L>(chunk.x + i) - mean);
    sum1 += b, dot1 += b * (load<L>(chunk.x + j) - mean);
  }
  if (p < chunk.positions) {
    const int64_t i = p * chunk.lanes + first;
    const Row<L> a = masked<L, kMask>(chunk, i, scale, shift);
    sum0 += a, dot0 += a * (load<L>(chunk.x + i) - mean);
  }
  store<L>(sum + first, sum0 + sum1);
  store<L>(dot + first, dot0 + dot1);
}

template <int L, Mask kMask>
void input_gradient_of(const BatchNormChunkGradient chunk, int64_t first, const float* mean_gradient_of_lane,
                       const float* slope_of_lane, float* out, float* residual_gradient) {
  const Row<L> scale = load<L>(chunk.scale + first), shift = load<L>(chunk.shift + first);
  const Row<L> mean = load<L>(chunk.mean + first);
  const Row<L> mean_gradient = load<L>(mean_gradient_of_lane + first), slope = load<L>(slope_of_lane + first);
  for (int64_t i = first; i < chunk.positions * chunk.lanes; i += chunk.lanes) {
    const Row<L> gradient = masked<L, kMask>(chunk, i, scale, shift);
    if (residual_gradient != nullptr) store<L>(residual_gradient + i, gradient);
    store<L>(out + i, scale * (gradient - mean_gradient) + slope * (load<L>(chunk.x + i) - mean));
  }
}

void statistics(const float* x, int64_t positions, int64_t lanes, float* mean, float* squares) {
  if (for_each_block(lanes, [&]<int L>(int64_t first) {
        statistics_of<L>(x + first, positions, lanes, mean + first, squares + first);
      }))
    return;
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

/// Works in blocks of lanes; returns false if there are too few lanes.
bool normalize_blocks(const BatchNormChunk& chunk, const BatchNormAddend& addend, float* y) {
  const int64_t added = addend.rows == nullptr ? 0 : addend.lanes;
  if (chunk.lanes < kFewest || (added > 0 && added < kFewest)) return false;
  // First the blocks with lanes that nothing is added to. The addend's blocks then overwrite their other lanes.
  if (added < chunk.lanes)
    for_each_block(chunk.lanes, [&]<int L>(int64_t first) {
      if (first + L > added) normalize_of<L>(chunk, first, {}, y);
    });
  for_each_block(added, [&]<int L>(int64_t first) { normalize_of<L>(chunk, first, addend, y); });
  return true;
}

void normalize(const BatchNormChunk& chunk, const BatchNormAddend& addend, float* y) {
  if (normalize_blocks(chunk, addend, y)) return;
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
void gradient_sums_of_block(const BatchNormChunkGradient& chunk, int64_t first, float* sum, float* dot) {
  switch (mask_of(chunk)) {
    case Mask::none: return gradient_sums_of<L, Mask::none>(chunk, first, sum, dot);
    case Mask::output: return gradient_sums_of<L, Mask::output>(chunk, first, sum, dot);
    case Mask::recomputed: return gradient_sums_of<L, Mask::recomputed>(chunk, first, sum, dot);
  }
}

void gradient_sums(const BatchNormChunkGradient& chunk, float* sum, float* dot) {
  if (for_each_block(chunk.lanes, [&]<int L>(int64_t first) { gradient_sums_of_block<L>(chunk, first, sum, dot); }))
    return;
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
void input_gradient_of_block(const BatchNormChunkGradient& chunk, int64_t first, const float* mean_gradient,
                             const float* slope, float* out, float* residual) {
  switch (mask_of(chunk)) {
    case Mask::none: return input_gradient_of<L, Mask::none>(chunk, first, mean_gradient, slope, out, residual);
    case Mask::output: return input_gradient_of<L, Mask::output>(chunk, first, mean_gradient, slope, out, residual);
    case Mask::recomputed:
      return input_gradient_of<L, Mask::recomputed>(chunk, first, mean_gradient, slope, out, residual);
  }
}

void input_gradient(const BatchNormChunkGradient& chunk, const float* mean_gradient, const float* slope, float* out,
                    float* residual) {
  if (for_each_block(chunk.lanes, [&]<int L>(int64_t first) {
        input_gradient_of_block<L>(chunk, first, mean_gradient, slope, out, residual);
      }))
    return;
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
