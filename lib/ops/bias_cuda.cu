#include "ops/activation_functions_cuda.h"
#include "ops/bias_cuda.h"
#include "ops/channel_rows_cuda.h"

namespace dptrain::ops::cuda {
namespace {

/// Reads and writes each element once.
template <class T, int V>
__global__ void add_bias_kernel(ChannelRows m, T* y, const T* bias, bool relu) {
  const int64_t c = m.first_column<V>();
  if (c >= m.columns) return;
  float b[V];
  m.for_each_channel<V>(c, [&](int i, int64_t channel) { b[i] = to_float(bias[channel]); });
  for (int64_t row = m.first_row(); row < m.end_row(); row += m.row_step()) {
    auto value = Pack<T, V>::load(y + row * m.columns + c);
    for (int i = 0; i < V; ++i) {
      const float sum = value.get(i) + b[i];
      value.set(i, relu && sum <= 0.f ? 0.f : sum);
    }
    value.store(y + row * m.columns + c);
  }
}

/// Reads each element once.
template <class T, int V>
__global__ void row_sums_kernel(ChannelRows m, const T* x, float* parts) {
  const int64_t c = m.first_column<V>();
  float own[1][V] = {};
  if (c < m.columns) {
#pragma unroll 4
    for (int64_t row = m.first_row(); row < m.end_row(); row += m.row_step()) {
      const auto value = Pack<T, V>::load(x + row * m.columns + c);
      for (int i = 0; i < V; ++i) own[0][i] += value.get(i);
    }
  }
  float* const to[1] = {parts};
  write_part_sums<V, 1>(m, own, to);
}

/// Reads two elements and writes one for each element of the gradient.
template <class T, int V>
__global__ void gelu_bias_kernel(ChannelRows m, const T* x, const T* incoming, T* gradient, float* parts) {
  const int64_t c = m.first_column<V>();
  float own[1][V] = {};
  if (c < m.columns) {
#pragma unroll 2
    for (int64_t row = m.first_row(); row < m.end_row(); row += m.row_step()) {
      const int64_t at = row * m.columns + c;
      const auto input = Pack<T, V>::load(x + at), arriving = Pack<T, V>::load(incoming + at);
      Pack<T, V> result;
      for (int i = 0; i < V; ++i) {
        const float value = arriving.get(i) * gelu_slope_of(input.get(i));
        own[0][i] += value;
        result.set(i, value);
      }
      result.store(gradient + at);
    }
  }
  float* const to[1] = {parts};
  write_part_sums<V, 1>(m, own, to);
}

__global__ void __launch_bounds__(kFoldThreads)
    fold_bias_kernel(const float* parts, int64_t part_count, int64_t channels, float* bias, bool accumulate) {
  double sum[1];
  const float* const of[1] = {parts};
  fold_parts<1>(of, part_count, channels, sum);
  const int64_t c = fold_channel();
  if (threadIdx.y == 0 && c < channels) bias[c] = static_cast<float>(accumulate ? bias[c] + sum[0] : sum[0]);
}

void fold(const ChannelRows& m, const Tensor& parts, const Tensor& bias, bool accumulate) {
  launch("fold_bias", bias, fold_blocks(m.channels), fold_block(), fold_bias_kernel, parts.data<float>(), m.sums(),
         m.channels, bias.data<float>(), accumulate);
}

}  // namespace

void add_bias(const Tensor& y, const Tensor& bias, bool relu) {
  with_pack(y, {y.raw()}, [&]<class T, int V>(ElementType<T>, std::integral_constant<int, V>) {
    const ChannelRows m(rows_of(y), bias.elements(), V, ChannelRows::kForMaps);
    launch("add_bias", y, m.grid(), m.block(), add_bias_kernel<T, V>, m, y.data<T>(), bias.data<T>(), relu);
  });
}

void bias_gradient(const Tensor& gradient, const Tensor& bias, bool accumulate) {
  with_pack(gradient, {gradient.raw()}, [&]<class T, int V>(ElementType<T>, std::integral_constant<int, V>) {
    const ChannelRows m(rows_of(gradient), bias.elements(), V);
    const Tensor parts = scratch(bias.device(), m.sums() * m.channels);
    launch("row_sums", bias, m.grid(), m.block(), row_sums_kernel<T, V>, m, gradient.data<T>(), parts.data<float>());
    fold(m, parts, bias, accumulate);
  });
}

void gelu_bias_backward(const Tensor& x, const Tensor& incoming, const Tensor& gradient, const Tensor& bias,
                        bool accumulate) {
  with_pack(x, {x.raw(), incoming.raw(), gradient.raw()},
            [&]<class T, int V>(ElementType<T>, std::integral_constant<int, V>) {
              const ChannelRows m(rows_of(x), bias.elements(), V);
              const Tensor parts = scratch(bias.device(), m.sums() * m.channels);
              launch("gelu_bias backward", x, m.grid(), m.block(), gelu_bias_kernel<T, V>, m, x.data<T>(),
                     incoming.data<T>(), gradient.data<T>(), parts.data<float>());
              fold(m, parts, bias, accumulate);
            });
}

}  // namespace dptrain::ops::cuda
