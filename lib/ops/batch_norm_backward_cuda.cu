#include "ops/batch_norm_cuda.h"
#include "ops/batch_norm_inputs.h"
#include "ops/batch_norm_normalization_cuda.h"
#include "ops/batch_norm_parts_cuda.h"
#include "ops/channel_rows_cuda.h"
#include "ops/nhwc_cuda.h"
#include "ops/other_channels_cuda.h"
#include "ops/reorder.h"

// Elements read and written per element of x:
// - The sums read 2, 1 more if a residual's output says where the ReLU cut, and 1 more for a second gradient. With
//   either they write 1, the gradient before the ReLU, and the gradients then read 2 and write 1.
// - In synchronized norms, sums and gradients are apart. The gradients read what the sums have read, and write 1, or 2
//   with a residual.
// - The gradients read 1 more if they are added to something.
// An element takes a few operations, so all of this is bound by memory.

namespace dptrain::ops::cuda {
namespace {

/// Blocks per multiprocessor. Fewer have too few loads in flight; more leave no room for a thread's numbers.
constexpr int kBlocks = 2;

template <class T>
struct BackwardInputs {
  const T* __restrict__ x;
  const T* __restrict__ y;  ///< null: whether the ReLU cut is computed again from x
  const T* incoming;
  const T* __restrict__ second;  ///< null: nothing is added to `incoming`
  Normalization normalization;
  bool relu;
};

/// What a thread reads of a row.
template <class T, int V>
struct BackwardPacks {
  Pack<T, V> x, y = {}, incoming, second = {};

  __device__ static BackwardPacks load(const BackwardInputs<T>& b, int64_t at) {
    BackwardPacks packs;
    packs.x = Pack<T, V>::load(b.x + at);
    packs.incoming = Pack<T, V>::load(b.incoming + at);
    if (b.relu && b.y != nullptr) packs.y = Pack<T, V>::load(b.y + at);
    if (b.second != nullptr) packs.second = Pack<T, V>::load(b.second + at);
    return packs;
  }
};

/// A thread's V columns. The thread takes them in one row at a time.
template <class T, int V>
struct BackwardColumns {
  Affine affine[V];
  float mean[V];

  __device__ BackwardColumns(const BackwardInputs<T>& b, const ChannelRows& m, int64_t column) {
    const ColumnNumbers<V> numbers(m, b.normalization, column);
    for (int i = 0; i < V; ++i) affine[i] = numbers.of[i].affine(), mean[i] = numbers.of[i].mean;
  }

  /// Computes the gradient before the ReLU, and the distance of x from its mean.
  __device__ void split(const BackwardInputs<T>& b, BackwardPacks<T, V> packs, float (&gradient)[V],
                        float (&distance)[V]) const {
    if (b.second != nullptr) {
      // Rounded as a sum in memory would be.
      for (int i = 0; i < V; ++i) packs.incoming.set(i, packs.incoming.get(i) + packs.second.get(i));
    }
    for (int i = 0; i < V; ++i) {
      const float x = packs.x.get(i);
      distance[i] = x - mean[i];
      const float output = b.y != nullptr && b.relu ? packs.y.get(i) : fmaf(x, affine[i].scale, affine[i].shift);
      gradient[i] = b.relu && !(output > 0.f) ? 0.f : packs.incoming.get(i);
    }
  }
};

/// Sums the gradient, and gradient * (x - mean), over a part's rows. Writes the gradient itself to `masked` unless that
/// is null; `masked` may be `incoming`.
template <class T, int V>
__global__ void __launch_bounds__(kThreads, kBlocks)
    gradient_sums_kernel(ChannelRows m, BackwardInputs<T> b, float* sums, float* dots, T* masked) {
  const int64_t c = m.first_column<V>();
  float own[2][V] = {};
  if (c < m.columns) {
    const BackwardColumns<T, V> columns(b, m, c);
    m.for_each_row<2>([&](int64_t row) { return BackwardPacks<T, V>::load(b, row * m.columns + c); },
                      [&](int64_t row, const BackwardPacks<T, V>& packs) {
                        float gradient[V], distance[V];
                        columns.split(b, packs, gradient, distance);
                        Pack<T, V> kept;
                        for (int i = 0; i < V; ++i) {
                          own[0][i] += gradient[i];
                          own[1][i] = fmaf(gradient[i], distance[i], own[1][i]);
                          kept.set(i, gradient[i]);
                        }
                        if (masked != nullptr) kept.store(masked + row * m.columns + c);
                      });
  }
  float* const to[2] = {sums, dots};
  write_part_sums<V, 2>(m, own, to);
}

/// What the gradient of x loses in each channel, so that it is centered.
struct Centering {
  float* mean;   ///< the mean of the gradient
  float* slope;  ///< factor of (x - mean)

  /// Sets channel c from the sums over `count` values of the gradient, and of gradient * (x - mean).
  __device__ void finish(int64_t c, double sum, double dot, double count, const Normalization& normalization) const {
    const double deviation = normalization.inverse_deviation[c];
    mean[c] = static_cast<float>(sum / count);
    slope[c] = static_cast<float>(-normalization.of(c).affine().scale * dot * deviation * deviation / count);
  }
  __device__ void none(int64_t c) const { mean[c] = slope[c] = 0.f; }
};

/// The members of BatchNormSinks, as kernels take them.
struct Sinks {
  float* gamma;
  float* beta;
  bool accumulate_gamma;
  bool accumulate_beta;

  __device__ void finish(int64_t c, double sum, double dot, const Normalization& normalization) const {
    const auto of_gamma = static_cast<float>(dot * normalization.inverse_deviation[c]);
    const auto of_beta = static_cast<float>(sum);
    gamma[c] = accumulate_gamma ? gamma[c] + of_gamma : of_gamma;
    beta[c] = accumulate_beta ? beta[c] + of_beta : of_beta;
  }
};

Sinks members(const BatchNormSinks& sinks) {
  return {.gamma = sinks.gamma.data<float>(),
          .beta = sinks.beta.data<float>(),
          .accumulate_gamma = sinks.accumulate_gamma,
          .accumulate_beta = sinks.accumulate_beta};
}

__global__ void __launch_bounds__(kFoldThreads)
    finish_gradients_kernel(ChannelRows m, const float* sums, const float* dots, Normalization normalization,
                            bool constant_statistics, Sinks sinks, Centering centering) {
  double folded[2];
  const float* const parts[2] = {sums, dots};
  fold_parts<2>(parts, m.sums(), m.channels, folded);
  const int64_t c = fold_channel();
  if (threadIdx.y != 0 || c >= m.channels) return;
  sinks.finish(c, folded[0], folded[1], normalization);
  if (constant_statistics)
    centering.none(c);
  else
    centering.finish(c, folded[0], folded[1], static_cast<double>(m.image_rows()), normalization);
}

/// Finishes the gradients of a part of the samples: writes those of gamma and beta, and the sums to `own`, [2 C].
__global__ void __launch_bounds__(kFoldThreads)
    finish_part_gradients_kernel(ChannelRows m, const float* sums, const float* dots, Normalization normalization,
                                 Sinks sinks, float* own) {
  double folded[2];
  const float* const parts[2] = {sums, dots};
  fold_parts<2>(parts, m.sums(), m.channels, folded);
  const int64_t c = fold_channel();
  if (threadIdx.y != 0 || c >= m.channels) return;
  sinks.finish(c, folded[0], folded[1], normalization);
  own[c] = static_cast<float>(folded[0]);
  own[m.channels + c] = static_cast<float>(folded[1]);
}

/// Computes the centering from the sums of all devices, if a sample has `positions` values per channel.
__global__ void center_by_sums_kernel(SumsOfAll all, const float* sums, int64_t positions, Normalization normalization,
                                      Centering centering) {
  const int64_t c = global_thread();
  if (c < all.channels) centering.finish(c, sums[c], sums[all.channels + c], all.values(positions), normalization);
}

/// Writes the gradient of x plus `sum` to `out`; `sum` may be `out`. Writes the gradient before the ReLU to
/// `residual_out`, unless that is null.
template <class T, int V>
__global__ void __launch_bounds__(kThreads, kBlocks)
    input_gradient_kernel(ChannelRows m, BackwardInputs<T> b, Centering centering, OtherChannels<T> sum, T* out,
                          T* __restrict__ residual_out) {
  const int64_t c = m.first_column<V>();
  if (c >= m.columns) return;
  float lost[V], slope[V];
  m.for_each_channel<V>(
      c, [&](int i, int64_t channel) { lost[i] = centering.mean[channel], slope[i] = centering.slope[channel]; });
  const BackwardColumns<T, V> columns(b, m, c);
  struct Loaded {
    BackwardPacks<T, V> packs;
    Pack<T, V> sum = {};
  };
  const auto load = [&](int64_t row) {
    Loaded loaded;
    loaded.packs = BackwardPacks<T, V>::load(b, row * m.columns + c);
    if (sum.x != nullptr) loaded.sum = sum.template load<V>(m, row, c);
    return loaded;
  };
  m.for_each_row<2>(load, [&](int64_t row, const Loaded& loaded) {
    float gradient[V], distance[V];
    columns.split(b, loaded.packs, gradient, distance);
    Pack<T, V> result, residual;
    for (int i = 0; i < V; ++i) {
      result.set(i, fmaf(slope[i], distance[i], columns.affine[i].scale * (gradient[i] - lost[i])));
      // Rounded as a gradient in memory would be.
      if (sum.x != nullptr) result.set(i, result.get(i) + loaded.sum.get(i));
      residual.set(i, gradient[i]);
    }
    result.store(out + row * m.columns + c);
    if (residual_out != nullptr) residual.store(residual_out + row * m.columns + c);
  });
}

/// One backward pass over tensors in nhwc.
struct Backward {
  const BatchNormInputs& in;
  const BatchNormTraining& forward;
  const BatchNormOptions& options;
  Tensor incoming;
  Tensor second = {};  ///< undefined: nothing is added to `incoming`
  Tensor x = in_nhwc(in.x);
  Tensor y = in.residual.defined() ? in_nhwc(forward.y) : Tensor();
  int64_t channels = x.shape()[1];
  Normalization normalization = normalization_of(in, forward);
  Tensor lost = scratch(x.device(), channels), slope = scratch(x.device(), channels);

  Centering centering() const { return {.mean = lost.data<float>(), .slope = slope.data<float>()}; }

  template <class T>
  BackwardInputs<T> inputs() const {
    return {.x = x.data<T>(),
            .y = data_or_null<T>(y),
            .incoming = incoming.data<T>(),
            .second = data_or_null<T>(second),
            .normalization = normalization,
            .relu = options.relu};
  }
  /// The inputs once gradient_sums_kernel has written the gradient before the ReLU to `masked`.
  template <class T>
  BackwardInputs<T> inputs(const Tensor& masked) const {
    BackwardInputs<T> known = inputs<T>();
    known.y = known.second = nullptr;
    known.incoming = masked.data<T>();
    known.relu = false;
    return known;
  }

  /// Calls finish(rows, sums, dots) with the results of gradient_sums_kernel. x must have samples.
  template <class F>
  void with_sums(const Tensor& masked, const F& finish) const {
    with_packs(masked, Tensor(), [&]<class T, int V>(ElementType<T>, std::integral_constant<int, V>) {
      const ChannelRows m(rows_of(x), channels, V);
      const Tensor sums = scratch(x.device(), m.sums() * channels), dots = scratch(x.device(), m.sums() * channels);
      launch("batch_norm sums", x, m.grid(), m.block(), gradient_sums_kernel<T, V>, m, inputs<T>(), sums.data<float>(),
             dots.data<float>(), data_or_null<T>(masked));
      finish(m, sums.data<float>(), dots.data<float>());
    });
  }

  /// Returns the gradients of x and of the residual, in the layout that x came in. `masked`: what with_sums has written
  /// to it, or undefined. `sum`: what the gradient of x is added to, in nhwc, or undefined. `wider`: its first channels
  /// are added to the gradient of x; or undefined.
  BatchNormGradients gradients(const Tensor& masked, const Tensor& sum = {}, const Tensor& wider = {}) const {
    const Tensor added = sum.defined() ? sum : in_nhwc(wider);
    const Tensor of_x = sum.defined() ? sum : empty_nhwc(x, x.shape());
    const bool masks = in.residual.defined() && !masked.defined();
    const Tensor of_residual = masks ? empty_nhwc(x, x.shape()) : in.residual.defined() ? masked : Tensor();
    if (x.elements() > 0)
      with_packs(of_x, added, [&]<class T, int V>(ElementType<T>, std::integral_constant<int, V>) {
        const ChannelRows wide(rows_of(x), channels, V, ChannelRows::kForMaps);
        launch("batch_norm gradients", x, wide.grid(), wide.block(), input_gradient_kernel<T, V>, wide,
               masked.defined() ? inputs<T>(masked) : inputs<T>(), centering(), OtherChannels<T>(added, wide, V),
               of_x.data<T>(), masks ? of_residual.data<T>() : nullptr);
      });
    return {.x = sum.defined() ? sum : reorder(of_x, in.x.layout()),
            .residual = of_residual.defined() ? reorder(of_residual, in.x.layout()) : Tensor()};
  }

 private:
  template <class F>
  void with_packs(const Tensor& written, const Tensor& added, const F& f) const {
    const auto begin_of = [](const Tensor& tensor) { return tensor.defined() ? tensor.raw() : nullptr; };
    with_pack(x, {x.raw(), begin_of(y), incoming.raw(), begin_of(second), begin_of(written), begin_of(added)}, f);
  }
};

}  // namespace

BatchNormGradients batch_norm_backward(const BatchNormInputs& in, const BatchNormTraining& forward,
                                       const SummedGradient& output_gradient, const BatchNormSinks& sinks,
                                       const BatchNormOptions& options) {
  const bool in_place = output_gradient.first.is_unique() && output_gradient.first.layout() == Layout::nhwc;
  const Backward backward{.in = in,
                          .forward = forward,
                          .options = options,
                          .incoming = in_nhwc(output_gradient.first),
                          .second = in_nhwc(output_gradient.second)};
  if (in.x.elements() == 0) {
    finish_without_samples(sinks);
    return backward.gradients(Tensor(), sinks.x, sinks.wider);
  }
  // The gradient before the ReLU is kept if it is the residual's gradient, or would have to be read from two places
  // again. If there is neither a ReLU nor a second gradient, it is the incoming gradient itself. Else it overwrites the
  // incoming gradient if nobody else holds that.
  const bool as_it_came = !options.relu && !backward.second.defined();
  const bool is_kept = in.residual.defined() || backward.second.defined();
  const Tensor masked = !is_kept                 ? Tensor()
                        : as_it_came || in_place ? backward.incoming
                                                 : empty_nhwc(backward.x, in.x.shape());
  backward.with_sums(as_it_came ? Tensor() : masked, [&](const ChannelRows& m, const float* sums, const float* dots) {
    launch("batch_norm fold", in.x, fold_blocks(m.channels), fold_block(), finish_gradients_kernel, m, sums, dots,
           backward.normalization, options.constant_statistics, members(sinks), backward.centering());
  });
  return backward.gradients(masked, sinks.x, sinks.wider);
}

Tensor batch_norm_gradient_sums(const BatchNormInputs& in, const BatchNormTraining& forward,
                                const Tensor& output_gradient, const BatchNormSinks& sinks,
                                const BatchNormOptions& options) {
  const Backward backward{.in = in, .forward = forward, .options = options, .incoming = in_nhwc(output_gradient)};
  Tensor own = Tensor::empty(in.x.device(), {2 * backward.channels});
  backward.with_sums(Tensor(), [&](const ChannelRows& m, const float* sums, const float* dots) {
    launch("batch_norm part sums", in.x, fold_blocks(m.channels), fold_block(), finish_part_gradients_kernel, m, sums,
           dots, backward.normalization, members(sinks), own.data<float>());
  });
  return own;
}

BatchNormGradients batch_norm_backward_by_sums(const BatchNormInputs& in, const BatchNormTraining& forward,
                                               const BatchNormPartGradient& gradient, const BatchNormOptions& options) {
  const Backward backward{
      .in = in, .forward = forward, .options = options, .incoming = in_nhwc(gradient.output_gradient)};
  if (in.x.elements() > 0)
    launch("batch_norm center", in.x, blocks_of_all(backward.channels), kThreads, center_by_sums_kernel,
           SumsOfAll{gradient.means.data<float>(), backward.channels}, gradient.sums.data<float>(),
           in.x.shape()[2] * in.x.shape()[3], backward.normalization, backward.centering());
  return backward.gradients(Tensor());
}

}  // namespace dptrain::ops::cuda
