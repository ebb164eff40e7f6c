#include <utility>

#include "ops/channel_rows_cuda.h"
#include "ops/dropout_cuda.h"
#include "ops/layer_norm_arguments_cuda.h"
#include "ops/layer_norm_cuda.h"
#include "ops/layer_norm_rows_cuda.h"
#include "ops/warp_cuda.h"

// Layer normalization of rows that are too long for registers, or can't be loaded by packs; see layer_norm_rows_cuda.h
// for other rows. A warp takes a row. Its lanes walk over the row by packs, and fold their numbers by shuffles, always
// in the same order. Only the first pass over a row reads from memory. The parameters' gradients are column sums, by
// parts of rows.

namespace dptrain::ops::cuda {
namespace {

template <class T, int V>
__global__ void forward_kernel(LayerNormForwardArguments<T> f, int64_t rows, int64_t width) {
  const int64_t row = row_of_warp();
  if (row >= rows) return;
  const T* x = f.x + row * width;
  const int64_t first = int64_t{threadIdx.x} * V, step = 32 * V;
  if (f.residual != nullptr) {
    T* sum = f.sum + row * width;
    for (int64_t i = first; i < width; i += step) {
      auto value = Pack<T, V>::load(x + i);
      const auto residual = Pack<T, V>::load(f.residual + row * width + i);
      for (int v = 0; v < V; ++v) {
        const bool is_dropped = f.mask != nullptr && f.mask[row * width + i + v] == 0;
        const float part = is_dropped ? 0.f : __fmul_rn(value.get(v), f.scale);
        value.set(v, __fadd_rn(part, residual.get(v)));
      }
      value.store(sum + i);
    }
    x = sum;  // from here on a lane reads what it has written itself
  }
  float own = 0;
  for (int64_t i = first; i < width; i += step) {
    const auto value = Pack<T, V>::load(x + i);
    for (int v = 0; v < V; ++v) own += value.get(v);
  }
  const float mean = sum_of_warp(own) / static_cast<float>(width);
  own = 0;
  for (int64_t i = first; i < width; i += step) {
    const auto value = Pack<T, V>::load(x + i);
    for (int v = 0; v < V; ++v) own += (value.get(v) - mean) * (value.get(v) - mean);
  }
  const float inverse = 1.f / sqrtf(sum_of_warp(own) / static_cast<float>(width) + f.epsilon);
  for (int64_t i = first; i < width; i += step) {
    auto value = Pack<T, V>::load(x + i);
    for (int v = 0; v < V; ++v) value.set(v, (value.get(v) - mean) * inverse * f.gamma[i + v] + f.beta[i + v]);
    value.store(f.y + row * width + i);
  }
  if (threadIdx.x == 0) f.mean[row] = mean, f.inverse_deviation[row] = inverse;
}

/// dx = inverse * (g - mean(g) - xhat * mean(g * xhat)), with g = incoming * gamma and xhat = (x - mean) * inverse.
template <class T, int V>
__global__ void input_gradient_kernel(LayerNormBackwardArguments<T> b, int64_t rows, int64_t width) {
  const int64_t row = row_of_warp();
  if (row >= rows) return;
  const T *x = b.x + row * width, *incoming = b.incoming + row * width;
  const float mean = b.mean[row], inverse = b.inverse_deviation[row];
  const int64_t first = int64_t{threadIdx.x} * V, step = 32 * V;
  float sum = 0, dot = 0;
  for (int64_t i = first; i < width; i += step) {
    const auto value = Pack<T, V>::load(x + i), of_output = Pack<T, V>::load(incoming + i);
    for (int v = 0; v < V; ++v) {
      const float g = of_output.get(v) * b.gamma[i + v];
      sum += g;
      dot += g * (value.get(v) - mean) * inverse;
    }
  }
  const float mean_gradient = sum_of_warp(sum) / static_cast<float>(width);
  const float slope = sum_of_warp(dot) / static_cast<float>(width);
  for (int64_t i = first; i < width; i += step) {
    const auto value = Pack<T, V>::load(x + i), of_output = Pack<T, V>::load(incoming + i);
    Pack<T, V> out;
    for (int v = 0; v < V; ++v) {
      const float normalized = (value.get(v) - mean) * inverse;
      out.set(v, inverse * (of_output.get(v) * b.gamma[i + v] - mean_gradient - normalized * slope));
    }
    out.store(b.of_sum + row * width + i);
    if (b.mask == nullptr) continue;
    for (int v = 0; v < V; ++v) out.set(v, b.mask[row * width + i + v] != 0 ? out.get(v) * b.scale : 0.f);
    out.store(b.of_x + row * width + i);
  }
}

/// Sums the gradients of gamma and beta over each part of the rows.
template <class T, int V>
__global__ void parameter_sums_kernel(ChannelRows m, LayerNormBackwardArguments<T> b, float* gamma_parts,
                                      float* beta_parts) {
  const int64_t c = m.first_column<V>();
  float own[2][V] = {};
  if (c < m.columns) {
#pragma unroll 4
    for (int64_t row = m.first_row(); row < m.end_row(); row += m.row_step()) {
      const auto value = Pack<T, V>::load(b.x + row * m.columns + c);
      const auto of_output = Pack<T, V>::load(b.incoming + row * m.columns + c);
      const float mean = b.mean[row], inverse = b.inverse_deviation[row];
      for (int v = 0; v < V; ++v) {
        own[0][v] += of_output.get(v) * (value.get(v) - mean) * inverse;
        own[1][v] += of_output.get(v);
      }
    }
  }
  float* const to[2] = {gamma_parts, beta_parts};
  write_part_sums<V, 2>(m, own, to);
}

__global__ void __launch_bounds__(kFoldThreads)
    fold_parameters_kernel(const float* gamma_parts, const float* beta_parts, int64_t part_count, int64_t channels,
                           float* gamma, bool accumulate_gamma, float* beta, bool accumulate_beta) {
  double sums[2];
  const float* const parts[2] = {gamma_parts, beta_parts};
  fold_parts<2>(parts, part_count, channels, sums);
  const int64_t c = fold_channel();
  if (threadIdx.y > 0 || c >= channels) return;
  gamma[c] = static_cast<float>(accumulate_gamma ? gamma[c] + sums[0] : sums[0]);
  beta[c] = static_cast<float>(accumulate_beta ? beta[c] + sums[1] : sums[1]);
}

template <class T, int V>
void forward_of(const LayerNormInputs& in, float epsilon, const LayerNormForward& forward) {
  const int64_t rows = forward.mean.elements(), width = in.gamma.elements();
  const LayerNormForwardArguments<T> f(in, epsilon, forward);
  launch("layer_norm", in.x, blocks_of_rows(rows), block_of_warps(), forward_kernel<T, V>, f, rows, width);
}

/// Writes the gradients of the inputs to `of`. Returns each part's sums for the gradient of gamma, then for that of
/// beta.
template <class T, int V>
Tensor backward_of(const LayerNormForward& forward, const Tensor& gamma, const Tensor& incoming,
                   const LayerNormInputGradients& of) {
  const int64_t rows = forward.mean.elements(), width = gamma.elements();
  const LayerNormBackwardArguments<T> b(forward, gamma, incoming, of);
  launch("layer_norm backward", gamma, blocks_of_rows(rows), block_of_warps(), input_gradient_kernel<T, V>, b, rows,
         width);
  const ChannelRows m(rows, width, V);
  Tensor parts = Tensor::empty(gamma.device(), {2, m.parts, width}, {.purpose = MemoryPurpose::workspace});
  float* const gamma_parts = parts.data<float>();
  launch("layer_norm parameter sums", gamma, m.grid(), m.block(), parameter_sums_kernel<T, V>, m, b, gamma_parts,
         gamma_parts + m.parts * width);
  return parts;
}

}  // namespace

void layer_norm_forward(const LayerNormInputs& in, float epsilon, const LayerNormForward& forward) {
  if (forward.mask.defined()) draw_mask(forward.mask, dropout_threshold(in.dropout), in.key);
  if (rows_fit_registers(in.x, in.residual)) return layer_norm_rows_forward(in, epsilon, forward);
  with_element_type(in.x, [&]<class T>(ElementType<T>) {
    const void* residual = in.residual.defined() ? in.residual.raw() : nullptr;
    if (in_packs(in.gamma.elements(), kPackOf<T>, {in.x.raw(), residual}))
      forward_of<T, kPackOf<T>>(in, epsilon, forward);
    else
      forward_of<T, 1>(in, epsilon, forward);
  });
}

void layer_norm_backward(const LayerNormForward& forward, const Tensor& gamma, SummedGradient incoming,
                         const LayerNormParameterGradients& gradients, const LayerNormInputGradients& of) {
  const bool fit = rows_fit_registers(forward.sum, incoming.first) && rows_fit_registers(forward.sum, incoming.second);
  if (!fit) incoming = std::move(incoming).sum();
  const Tensor parts = [&] {
    if (fit) return layer_norm_rows_backward(forward, gamma, incoming, of);
    return with_element_type(incoming.first, [&]<class T>(ElementType<T>) {
      const bool packs = in_packs(gamma.elements(), kPackOf<T>, {forward.sum.raw(), incoming.first.raw()});
      return packs ? backward_of<T, kPackOf<T>>(forward, gamma, incoming.first, of)
                   : backward_of<T, 1>(forward, gamma, incoming.first, of);
    });
  }();
  const int64_t part_count = parts.shape()[1], width = parts.shape()[2];
  const float* const gamma_parts = parts.data<float>();
  launch("fold layer_norm parameters", gamma, fold_blocks(width), fold_block(), fold_parameters_kernel, gamma_parts,
         gamma_parts + part_count * width, part_count, width, gradients.gamma.data<float>(), gradients.accumulate_gamma,
         gradients.beta.data<float>(), gradients.accumulate_beta);
}

}  // namespace dptrain::ops::cuda
