#include "ops/batch_norm_cuda.h"
#include "ops/batch_norm_normalization_cuda.h"
#include "ops/channel_rows_cuda.h"
#include "ops/nhwc_cuda.h"
#include "ops/reorder.h"

// Elements read and written for each of x: training statistics read 1; normalization reads 1 (2 with a residual) and
// writes 1. A few operations an element, so that all of it is bound by memory.

namespace dptrain::ops::cuda {
namespace {

/// Sums over a part's rows of x - shift and of its square. The shift, the first row, keeps a large mean from cancelling
/// the variance; it is the same for all parts, so that their sums can be added.
template <class T, int V>
__global__ void statistics_kernel(ChannelRows m, const T* __restrict__ x, float* sums, float* squares) {
  const int64_t c = m.first_channel<V>();
  float own[2][V] = {};
  if (c < m.channels) {
    const auto shift = Pack<T, V>::load(x + c);
#pragma unroll 4
    for (int64_t row = m.first_row(); row < m.end_row(); row += m.row_step()) {
      const auto value = Pack<T, V>::load(x + row * m.channels + c);
      for (int i = 0; i < V; ++i) {
        const float distance = value.get(i) - shift.get(i);
        own[0][i] += distance;
        own[1][i] = fmaf(distance, distance, own[1][i]);
      }
    }
  }
  float* const to[2] = {sums, squares};
  write_part_sums<V, 2>(m, own, to);
}

struct Statistics {
  float* running_mean;
  float* running_variance;
  float* mean;
  float* inverse_deviation;
  float epsilon;
  float momentum;
};

/// Folds the parts of each channel and derives all that depends on them.
template <class T>
__global__ void finish_statistics_kernel(ChannelRows m, const T* x, const float* sums, const float* squares,
                                         Statistics s) {
  double folded[2];
  const float* const parts[2] = {sums, squares};
  fold_parts<2>(parts, m.parts, m.channels, folded);
  const int64_t c = fold_channel();
  if (threadIdx.y != 0 || c >= m.channels) return;
  const double sum = folded[0], square = folded[1];
  const auto count = static_cast<double>(m.rows);
  const double distance = sum / count, spread = fmax(square - sum * distance, 0.0);
  s.mean[c] = static_cast<float>(to_float(x[c]) + distance);
  s.inverse_deviation[c] = static_cast<float>(1.0 / sqrt(spread / count + s.epsilon));
  s.running_mean[c] += s.momentum * (s.mean[c] - s.running_mean[c]);
  s.running_variance[c] += s.momentum * (static_cast<float>(spread / fmax(1.0, count - 1)) - s.running_variance[c]);
}

/// The same from the running statistics.
__global__ void running_statistics_kernel(int64_t channels, Statistics s) {
  const int64_t c = global_thread();
  if (c >= channels) return;
  s.mean[c] = s.running_mean[c];
  s.inverse_deviation[c] = 1.f / sqrtf(s.running_variance[c] + s.epsilon);
}

/// y = x * scale + shift, then + residual, then max(0, .)
template <class T, int V>
__global__ void normalize_kernel(ChannelRows m, const T* __restrict__ x, const T* __restrict__ residual,
                                 Normalization normalization, bool relu, T* __restrict__ y) {
  const int64_t c = m.first_channel<V>();
  if (c >= m.channels) return;
  Affine affine[V];
  for (int i = 0; i < V; ++i) affine[i] = normalization.of(c + i);
#pragma unroll 4
  for (int64_t row = m.first_row(); row < m.end_row(); row += m.row_step()) {
    const int64_t at = row * m.channels + c;
    auto value = Pack<T, V>::load(x + at);
    Pack<T, V> other;
    if (residual != nullptr) other = Pack<T, V>::load(residual + at);
    for (int i = 0; i < V; ++i) {
      float normal = fmaf(value.get(i), affine[i].scale, affine[i].shift);
      if (residual != nullptr) normal += other.get(i);
      value.set(i, relu && normal <= 0.f ? 0.f : normal);
    }
    value.store(y + at);
  }
}

/// One forward pass over tensors in nhwc.
struct Forward {
  const BatchNormInputs& in;
  const BatchNormOptions& options;
  Tensor x = in_nhwc(in.x), residual = in_nhwc(in.residual);
  int64_t channels = x.shape()[1];
  BatchNormTraining result{.y = empty_nhwc(x, x.shape()),
                           .mean = Tensor::empty(x.device(), {channels}),
                           .inverse_deviation = Tensor::empty(x.device(), {channels})};

  Statistics statistics() const {
    return {.running_mean = in.running_mean.data<float>(),
            .running_variance = in.running_variance.data<float>(),
            .mean = result.mean.data<float>(),
            .inverse_deviation = result.inverse_deviation.data<float>(),
            .epsilon = options.epsilon,
            .momentum = options.momentum};
  }

  BatchNormTraining in_layout_of_x() const {
    BatchNormTraining as_x = result;
    as_x.y = reorder(result.y, in.x.layout());
    return as_x;
  }

  template <class T, int V>
  void of_the_batch() const {
    const ChannelRows m(rows_of(x), channels, V);
    const Tensor sums = scratch(x.device(), m.parts * channels), squares = scratch(x.device(), m.parts * channels);
    launch("batch_norm statistics", x, m.grid(), m.block(), statistics_kernel<T, V>, m, x.data<T>(), sums.data<float>(),
           squares.data<float>());
    launch("batch_norm finish", x, fold_blocks(channels), fold_block(), finish_statistics_kernel<T>, m, x.data<T>(),
           sums.data<float>(), squares.data<float>(), statistics());
  }

  void of_the_past() const {
    launch("batch_norm running", x, blocks_of_all(channels), kThreads, running_statistics_kernel, channels,
           statistics());
  }

  template <class T, int V>
  void normalize() const {
    const ChannelRows wide(rows_of(x), channels, V, ChannelRows::kForMaps);
    launch("batch_norm normalize", x, wide.grid(), wide.block(), normalize_kernel<T, V>, wide, x.data<T>(),
           data_or_null<T>(residual), normalization_of(in, result), options.relu, result.y.data<T>());
  }
};

}  // namespace

BatchNormTraining batch_norm_training(const BatchNormInputs& in, const BatchNormOptions& options) {
  const Forward forward{.in = in, .options = options};
  with_pack(forward.x, {forward.x.raw()}, [&]<class T, int V>(ElementType<T>, std::integral_constant<int, V>) {
    forward.of_the_batch<T, V>();
    forward.normalize<T, V>();
  });
  return forward.in_layout_of_x();
}

BatchNormTraining batch_norm_by_running(const BatchNormInputs& in, const BatchNormOptions& options) {
  const Forward forward{.in = in, .options = options};
  forward.of_the_past();
  if (forward.x.elements() == 0) return forward.result;
  with_pack(forward.x, {forward.x.raw()},
            [&]<class T, int V>(ElementType<T>, std::integral_constant<int, V>) { forward.normalize<T, V>(); });
  return forward.in_layout_of_x();
}

Tensor batch_norm_again(const BatchNormInputs& in, const BatchNormTraining& earlier, const BatchNormOptions& options) {
  const Tensor x = in_nhwc(in.x);
  const Forward forward{
      .in = in,
      .options = options,
      .x = x,
      .result = {.y = empty_nhwc(x, x.shape()), .mean = earlier.mean, .inverse_deviation = earlier.inverse_deviation}};
  if (x.elements() > 0)
    with_pack(x, {x.raw()},
              [&]<class T, int V>(ElementType<T>, std::integral_constant<int, V>) { forward.normalize<T, V>(); });
  return forward.in_layout_of_x().y;
}

}  // namespace dptrain::ops::cuda
