#include "ops/batch_norm_cuda.h"
#include "ops/batch_norm_normalization_cuda.h"
#include "ops/channel_rows_cuda.h"
#include "ops/nhwc_cuda.h"
#include "ops/reorder.h"

// Elements read and written for each of x: sums read 2 (3: a residual's output says where the ReLU cut); gradients read
// 2 (3) and write 1 (2). A few operations an element, so that all of it is bound by memory.

namespace dptrain::ops::cuda {
namespace {

template <class T>
struct BackwardInputs {
  const T* __restrict__ x;
  const T* __restrict__ y;  ///< null: whether the ReLU cut is computed again from x
  const T* __restrict__ incoming;
  Normalization normalization;
  bool relu;
};

/// V channels of a thread, all of one row at a time.
template <class T, int V>
struct BackwardChannels {
  Affine affine[V];
  float mean[V];

  __device__ BackwardChannels(const BackwardInputs<T>& b, int64_t c) {
    for (int i = 0; i < V; ++i) affine[i] = b.normalization.of(c + i), mean[i] = b.normalization.mean[c + i];
  }

  /// The gradient before the ReLU, and the distance of x from its mean.
  __device__ void load(const BackwardInputs<T>& b, int64_t at, float (&gradient)[V], float (&distance)[V]) const {
    const auto x = Pack<T, V>::load(b.x + at), incoming = Pack<T, V>::load(b.incoming + at);
    Pack<T, V> y;
    if (b.relu && b.y != nullptr) y = Pack<T, V>::load(b.y + at);
    for (int i = 0; i < V; ++i) {
      distance[i] = x.get(i) - mean[i];
      const float output = b.y != nullptr && b.relu ? y.get(i) : fmaf(x.get(i), affine[i].scale, affine[i].shift);
      gradient[i] = b.relu && !(output > 0.f) ? 0.f : incoming.get(i);
    }
  }
};

/// Sums over a part's rows of the gradient, and of gradient * (x - mean).
template <class T, int V>
__global__ void gradient_sums_kernel(ChannelRows m, BackwardInputs<T> b, float* sums, float* dots) {
  const int64_t c = m.first_channel<V>();
  float own[2][V] = {};
  if (c < m.channels) {
    const BackwardChannels<T, V> channels(b, c);
#pragma unroll 4
    for (int64_t row = m.first_row(); row < m.end_row(); row += m.row_step()) {
      float gradient[V], distance[V];
      channels.load(b, row * m.channels + c, gradient, distance);
      for (int i = 0; i < V; ++i) {
        own[0][i] += gradient[i];
        own[1][i] = fmaf(gradient[i], distance[i], own[1][i]);
      }
    }
  }
  float* const to[2] = {sums, dots};
  write_part_sums<V, 2>(m, own, to);
}

struct Gradients {
  float* gamma;
  float* beta;
  float* mean;   ///< what the gradient of x loses: the mean of the gradient
  float* slope;  ///< and this times (x - mean)
};

__global__ void finish_gradients_kernel(ChannelRows m, const float* sums, const float* dots,
                                        Normalization normalization, bool constant_statistics, Gradients g) {
  double folded[2];
  const float* const parts[2] = {sums, dots};
  fold_parts<2>(parts, m.parts, m.channels, folded);
  const int64_t c = fold_channel();
  if (threadIdx.y != 0 || c >= m.channels) return;
  const double sum = folded[0], dot = folded[1];
  const double deviation = normalization.inverse_deviation[c], count = static_cast<double>(m.rows);
  g.beta[c] = static_cast<float>(sum);
  g.gamma[c] = static_cast<float>(dot * deviation);
  g.mean[c] = constant_statistics ? 0.f : static_cast<float>(sum / count);
  g.slope[c] =
      constant_statistics ? 0.f : static_cast<float>(-normalization.of(c).scale * dot * deviation * deviation / count);
}

template <class T, int V>
__global__ void input_gradient_kernel(ChannelRows m, BackwardInputs<T> b, Gradients g, T* __restrict__ out,
                                      T* __restrict__ residual_out) {
  const int64_t c = m.first_channel<V>();
  if (c >= m.channels) return;
  const BackwardChannels<T, V> channels(b, c);
  float lost[V], slope[V];
  for (int i = 0; i < V; ++i) lost[i] = g.mean[c + i], slope[i] = g.slope[c + i];
#pragma unroll 2
  for (int64_t row = m.first_row(); row < m.end_row(); row += m.row_step()) {
    const int64_t at = row * m.channels + c;
    float gradient[V], distance[V];
    channels.load(b, at, gradient, distance);
    Pack<T, V> result, residual;
    for (int i = 0; i < V; ++i) {
      result.set(i, fmaf(slope[i], distance[i], channels.affine[i].scale * (gradient[i] - lost[i])));
      residual.set(i, gradient[i]);
    }
    result.store(out + at);
    if (residual_out != nullptr) residual.store(residual_out + at);
  }
}

}  // namespace

BatchNormGradients batch_norm_backward(const BatchNormInputs& in, const BatchNormTraining& forward,
                                       const Tensor& output_gradient, const BatchNormOptions& options) {
  const Tensor x = in_nhwc(in.x), incoming = in_nhwc(output_gradient);
  const Tensor y = in.residual.defined() ? in_nhwc(forward.y) : Tensor();
  const int64_t channels = x.shape()[1];
  BatchNormGradients result{.x = empty_nhwc(x, x.shape()),
                            .residual = in.residual.defined() ? empty_nhwc(x, x.shape()) : Tensor(),
                            .gamma = Tensor::empty(x.device(), {channels}),
                            .beta = Tensor::empty(x.device(), {channels})};
  if (x.elements() == 0) {
    result.gamma.fill_zero();
    result.beta.fill_zero();
    return result;
  }
  const Tensor lost = scratch(x.device(), channels), slope = scratch(x.device(), channels);
  const Normalization normalization = normalization_of(in, forward);
  const Gradients gradients{.gamma = result.gamma.data<float>(),
                            .beta = result.beta.data<float>(),
                            .mean = lost.data<float>(),
                            .slope = slope.data<float>()};
  with_pack(x, {x.raw()}, [&]<class T, int V>(ElementType<T>, std::integral_constant<int, V>) {
    const ChannelRows m(rows_of(x), channels, V);
    const Tensor sums = scratch(x.device(), m.parts * channels), dots = scratch(x.device(), m.parts * channels);
    const BackwardInputs<T> inputs{.x = x.data<T>(),
                                   .y = data_or_null<T>(y),
                                   .incoming = incoming.data<T>(),
                                   .normalization = normalization,
                                   .relu = options.relu};
    launch("batch_norm sums", x, m.grid(), m.block(), gradient_sums_kernel<T, V>, m, inputs, sums.data<float>(),
           dots.data<float>());
    launch("batch_norm fold", x, fold_blocks(channels), fold_block(), finish_gradients_kernel, m, sums.data<float>(),
           dots.data<float>(), normalization, options.constant_statistics, gradients);
    const ChannelRows wide(rows_of(x), channels, V, ChannelRows::kForMaps);
    launch("batch_norm gradients", x, wide.grid(), wide.block(), input_gradient_kernel<T, V>, wide, inputs, gradients,
           result.x.data<T>(), data_or_null<T>(result.residual));
  });
  result.x = reorder(result.x, in.x.layout());
  if (result.residual.defined()) result.residual = reorder(result.residual, in.x.layout());
  return result;
}

}  // namespace dptrain::ops::cuda
