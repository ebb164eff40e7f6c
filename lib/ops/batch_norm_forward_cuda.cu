#include "ops/batch_norm_cuda.h"
#include "ops/batch_norm_normalization_cuda.h"
#include "ops/batch_norm_parts_cuda.h"
#include "ops/channel_rows_cuda.h"
#include "ops/nhwc_cuda.h"
#include "ops/other_channels_cuda.h"
#include "ops/reorder.h"

// Elements read and written per element of x: training statistics read 1; normalization reads 1 (2 with a residual) and
// writes 1. An element takes a few operations, so all of this is bound by memory.

namespace dptrain::ops::cuda {
namespace {

/// Sums x - shift and its square over a part's rows. The shift, which is the first row, keeps a large mean from
/// canceling the variance. It is the same for all parts, so that their sums can be added.
template <class T, int V>
__global__ void statistics_kernel(ChannelRows m, const T* __restrict__ x, float* sums, float* squares) {
  const int64_t c = m.first_column<V>();
  float own[2][V] = {};
  if (c < m.columns) {
    float shift[V];
    m.for_each_channel<V>(c, [&](int i, int64_t channel) { shift[i] = to_float(x[channel]); });
    m.for_each_row<4>([&](int64_t row) { return Pack<T, V>::load(x + row * m.columns + c); },
                      [&](int64_t, const Pack<T, V>& value) {
                        for (int i = 0; i < V; ++i) {
                          const float distance = value.get(i) - shift[i];
                          own[0][i] += distance;
                          own[1][i] = fmaf(distance, distance, own[1][i]);
                        }
                      });
  }
  float* const to[2] = {sums, squares};
  write_part_sums<V, 2>(m, own, to);
}

/// A channel's mean, and its sum of (x - mean)^2.
struct Moments {
  double mean;
  double squares;
};

/// Folds the parts of the thread's fold_channel(). All threads of the block must call it; those of row 0 get the
/// moments.
template <class T>
__device__ Moments fold_moments(const ChannelRows& m, const T* x, const float* sums, const float* squares) {
  double folded[2];
  const float* const parts[2] = {sums, squares};
  fold_parts<2>(parts, m.sums(), m.channels, folded);
  const int64_t c = fold_channel();
  if (threadIdx.y != 0 || c >= m.channels) return {};
  const double sum = folded[0], square = folded[1];
  const double distance = sum / static_cast<double>(m.image_rows());
  return {to_float(x[c]) + distance, fmax(square - sum * distance, 0.0)};
}

struct Statistics {
  float* running_mean;
  float* running_variance;
  float* mean;
  float* inverse_deviation;
  float epsilon;
  float momentum;

  /// Sets everything that depends on the moments of channel c, which are those of `count` values.
  __device__ void finish(int64_t c, const Moments& moments, double count) const {
    mean[c] = static_cast<float>(moments.mean);
    inverse_deviation[c] = static_cast<float>(1.0 / sqrt(moments.squares / count + epsilon));
    running_mean[c] += momentum * (mean[c] - running_mean[c]);
    running_variance[c] +=
        momentum * (static_cast<float>(moments.squares / fmax(1.0, count - 1)) - running_variance[c]);
  }
};

/// Folds the parts of each channel and computes everything that depends on them.
template <class T>
__global__ void __launch_bounds__(kFoldThreads)
    finish_statistics_kernel(ChannelRows m, const T* x, const float* sums, const float* squares, Statistics s) {
  const Moments moments = fold_moments(m, x, sums, squares);
  const int64_t c = fold_channel();
  if (threadIdx.y == 0 && c < m.channels) s.finish(c, moments, static_cast<double>(m.image_rows()));
}

/// The members of a BatchNormPart, as kernels take them.
struct Part {
  float* mean;
  float* squares;
  float* sums;
};

Part members(const BatchNormPart& part) {
  return {.mean = part.mean.data<float>(), .squares = part.squares.data<float>(), .sums = part.sums.data<float>()};
}

/// Folds the parts of each channel for one device's `samples` samples, and writes the members of `part`.
template <class T>
__global__ void __launch_bounds__(kFoldThreads)
    finish_part_kernel(ChannelRows m, const T* x, const float* sums, const float* squares, double samples, Part part) {
  const Moments moments = fold_moments(m, x, sums, squares);
  const int64_t c = fold_channel();
  if (threadIdx.y != 0 || c >= m.channels) return;
  part.mean[c] = static_cast<float>(moments.mean);
  part.squares[c] = static_cast<float>(moments.squares);
  part.sums[c] = static_cast<float>(samples * moments.mean);
  if (c == 0) part.sums[m.channels] = static_cast<float>(samples);
}

/// Computes a part's squares about the mean of all samples. `part.sums` are the sums of all devices by now. The part
/// has `count` values per channel.
__global__ void part_squares_kernel(int64_t channels, double count, Part part, float* squares) {
  const int64_t c = global_thread();
  if (c >= channels) return;
  const double distance = double{part.mean[c]} - SumsOfAll{part.sums, channels}.mean(c);
  squares[c] = static_cast<float>(part.squares[c] + count * distance * distance);
}

/// Computes the statistics from the sums of all devices, if a sample has `positions` values per channel.
__global__ void statistics_of_all_kernel(SumsOfAll all, const float* squares, int64_t positions, Statistics s) {
  const int64_t c = global_thread();
  if (c >= all.channels) return;
  const double count = all.values(positions);
  if (count > 0)
    s.finish(c, {all.mean(c), squares[c]}, count);
  else
    s.mean[c] = s.inverse_deviation[c] = 0.f;
}

/// Computes the statistics from the running ones.
__global__ void running_statistics_kernel(int64_t channels, Statistics s) {
  const int64_t c = global_thread();
  if (c >= channels) return;
  s.mean[c] = s.running_mean[c];
  s.inverse_deviation[c] = 1.f / sqrtf(s.running_variance[c] + s.epsilon);
}

/// y = x * scale + shift, then + residual, then max(0, .)
template <class T, int V>
__global__ void normalize_kernel(ChannelRows m, const T* __restrict__ x, OtherChannels<T> residual,
                                 Normalization normalization, bool relu, T* __restrict__ y) {
  const int64_t c = m.first_column<V>();
  if (c >= m.columns) return;
  Affine affine[V];
  const ColumnNumbers<V> numbers(m, normalization, c);
  for (int i = 0; i < V; ++i) affine[i] = numbers.of[i].affine();
  struct Loaded {
    Pack<T, V> x, residual = {};
  };
  const auto load = [&](int64_t row) {
    Loaded loaded;
    loaded.x = Pack<T, V>::load(x + row * m.columns + c);
    if (residual.x != nullptr) loaded.residual = residual.template load<V>(m, row, c);
    return loaded;
  };
  m.for_each_row<4>(load, [&](int64_t row, const Loaded& loaded) {
    Pack<T, V> result;
    for (int i = 0; i < V; ++i) {
      float normal = fmaf(loaded.x.get(i), affine[i].scale, affine[i].shift);
      if (residual.x != nullptr) normal += loaded.residual.get(i);
      result.set(i, relu && normal <= 0.f ? 0.f : normal);
    }
    result.store(y + row * m.columns + c);
  });
}

/// The results of statistics_kernel for x.
template <class T>
struct PartSums {
  ChannelRows rows;
  Tensor sums;
  Tensor squares;
};

/// Calls finish(PartSums<T>) for x, which must be in nhwc and have samples.
template <class F>
void with_part_sums(const Tensor& x, const F& finish) {
  const int64_t channels = x.shape()[1];
  with_pack(x, {x.raw()}, [&]<class T, int V>(ElementType<T>, std::integral_constant<int, V>) {
    const ChannelRows m(rows_of(x), channels, V);
    const PartSums<T> part{.rows = m,
                           .sums = scratch(x.device(), m.sums() * channels),
                           .squares = scratch(x.device(), m.sums() * channels)};
    launch("batch_norm statistics", x, m.grid(), m.block(), statistics_kernel<T, V>, m, x.data<T>(),
           part.sums.template data<float>(), part.squares.template data<float>());
    finish(part);
  });
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

  void of_the_batch() const {
    with_part_sums(x, [&]<class T>(const PartSums<T>& sums) {
      launch("batch_norm finish", x, fold_blocks(channels), fold_block(), finish_statistics_kernel<T>, sums.rows,
             x.data<T>(), sums.sums.template data<float>(), sums.squares.template data<float>(), statistics());
    });
  }

  void of_the_past() const {
    launch("batch_norm running", x, blocks_of_all(channels), kThreads, running_statistics_kernel, channels,
           statistics());
  }

  void of_all_devices(const BatchNormSums& sums) const {
    launch("batch_norm of all", x, blocks_of_all(channels), kThreads, statistics_of_all_kernel,
           SumsOfAll{sums.means.data<float>(), channels}, sums.squares.data<float>(), x.shape()[2] * x.shape()[3],
           statistics());
  }

  void normalize() const {
    if (x.elements() == 0) return;
    const void* const added = residual.defined() ? residual.raw() : nullptr;
    with_pack(x, {x.raw(), added}, [&]<class T, int V>(ElementType<T>, std::integral_constant<int, V>) {
      const ChannelRows wide(rows_of(x), channels, V, ChannelRows::kForMaps);
      launch("batch_norm normalize", x, wide.grid(), wide.block(), normalize_kernel<T, V>, wide, x.data<T>(),
             OtherChannels<T>(residual, wide, V), normalization_of(in, result), options.relu, result.y.data<T>());
    });
  }
};

}  // namespace

BatchNormTraining batch_norm_training(const BatchNormInputs& in, const BatchNormOptions& options) {
  const Forward forward{.in = in, .options = options};
  forward.of_the_batch();
  forward.normalize();
  return forward.in_layout_of_x();
}

BatchNormTraining batch_norm_by_running(const BatchNormInputs& in, const BatchNormOptions& options) {
  const Forward forward{.in = in, .options = options};
  forward.of_the_past();
  forward.normalize();
  return forward.in_layout_of_x();
}

BatchNormTraining batch_norm_by_sums(const BatchNormInputs& in, const BatchNormSums& sums,
                                     const BatchNormOptions& options) {
  const Forward forward{.in = in, .options = options};
  forward.of_all_devices(sums);
  forward.normalize();
  return forward.in_layout_of_x();
}

Tensor batch_norm_again(const BatchNormInputs& in, const BatchNormTraining& earlier, const BatchNormOptions& options) {
  const Tensor x = in_nhwc(in.x);
  const Forward forward{
      .in = in,
      .options = options,
      .x = x,
      .result = {.y = empty_nhwc(x, x.shape()), .mean = earlier.mean, .inverse_deviation = earlier.inverse_deviation}};
  forward.normalize();
  return forward.in_layout_of_x().y;
}

BatchNormPart batch_norm_part(const Tensor& images) {
  const Tensor x = in_nhwc(images);
  const int64_t channels = x.shape()[1];
  BatchNormPart result{.mean = Tensor::empty(x.device(), {channels}),
                       .squares = Tensor::empty(x.device(), {channels}),
                       .sums = Tensor::empty(x.device(), {channels + 1})};
  with_part_sums(x, [&]<class T>(const PartSums<T>& sums) {
    launch("batch_norm part", x, fold_blocks(channels), fold_block(), finish_part_kernel<T>, sums.rows, x.data<T>(),
           sums.sums.template data<float>(), sums.squares.template data<float>(), static_cast<double>(x.shape()[0]),
           members(result));
  });
  return result;
}

Tensor batch_norm_part_squares(const Tensor& x, const BatchNormPart& part) {
  const int64_t channels = x.shape()[1];
  Tensor squares = Tensor::empty(x.device(), {channels});
  launch("batch_norm squares", squares, blocks_of_all(channels), kThreads, part_squares_kernel, channels,
         static_cast<double>(x.shape()[0] * x.shape()[2] * x.shape()[3]), members(part), squares.data<float>());
  return squares;
}

}  // namespace dptrain::ops::cuda
