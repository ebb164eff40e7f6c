#include <algorithm>

#include "ops/channel_rows_cuda.h"
#include "ops/layer_norm_arguments_cuda.h"
#include "ops/layer_norm_rows_cuda.h"
#include "ops/warp_cuda.h"

// A warp takes a row at a time. Each lane keeps P packs of V of the row's elements in registers. Shuffles fold the
// lanes' numbers, always in the same order.
//
// Elements read and written per element of x: forward reads 1 and writes 1, or reads 2 and writes 2 with a residual.
// Backward reads 2, and 1 more for a second gradient; it writes 1, or 2 with dropout. Dropout reads a byte more in both
// passes. An element takes about 10 operations, so all of this is bound by memory.

namespace dptrain::ops::cuda {
namespace {

/// The most elements of a row that a lane keeps.
constexpr int kMostOfALane = 32;

/// Calls f(p, at) for each pack p of a lane that is inside the row; the pack begins at element `at`.
template <int V, int P, class F>
__device__ void for_each_pack(int64_t width, const F& f) {
#pragma unroll
  for (int p = 0; p < P; ++p) {
    const int64_t at = (int64_t{p} * 32 + threadIdx.x) * V;
    if (at < width) f(p, at);
  }
}

template <class T, int V, int P>
__global__ void __launch_bounds__(32 * kWarps)
    forward_kernel(LayerNormForwardArguments<T> f, int64_t rows, int64_t width) {
  const int64_t row = row_of_warp();
  if (row >= rows) return;
  const int64_t begin = row * width;
  float own = 0, x[P][V] = {};
  for_each_pack<V, P>(width, [&](int p, int64_t at) {
    auto value = Pack<T, V>::load(f.x + begin + at);
    if (f.residual != nullptr) {
      const auto residual = Pack<T, V>::load(f.residual + begin + at);
      Pack<uint8_t, V> kept;
      if (f.mask != nullptr) kept = Pack<uint8_t, V>::load(f.mask + begin + at);
      for (int v = 0; v < V; ++v) {
        const float part = f.mask == nullptr ? value.get(v) : kept.at[v] != 0 ? __fmul_rn(value.get(v), f.scale) : 0.f;
        value.set(v, __fadd_rn(part, residual.get(v)));
      }
      value.store(f.sum + begin + at);
    }
    // The sum is normalized as it is stored, after rounding.
    for (int v = 0; v < V; ++v) own += x[p][v] = value.get(v);
  });
  const float mean = sum_of_warp(own) / static_cast<float>(width);
  own = 0;
  for_each_pack<V, P>(width, [&](int p, int64_t) {
    for (int v = 0; v < V; ++v) own += (x[p][v] - mean) * (x[p][v] - mean);
  });
  const float inverse = 1.f / sqrtf(sum_of_warp(own) / static_cast<float>(width) + f.epsilon);
  for_each_pack<V, P>(width, [&](int p, int64_t at) {
    const auto gamma = Pack<float, V>::load(f.gamma + at), beta = Pack<float, V>::load(f.beta + at);
    Pack<T, V> y;
    for (int v = 0; v < V; ++v) y.set(v, (x[p][v] - mean) * inverse * gamma.at[v] + beta.at[v]);
    y.store(f.y + begin + at);
  });
  if (threadIdx.x == 0) f.mean[row] = mean, f.inverse_deviation[row] = inverse;
}

/// The parts of the rows. They depend on the shape alone, so that sums that are folded part by part have the same bits
/// on every GPU. There are enough parts for four blocks on each of 132 multiprocessors, unless a part would have less
/// than a row for each of a block's warps.
struct RowParts {
  int64_t rows, width, part_rows, parts;

  RowParts(int64_t row_count, int64_t row_width)
      : rows(row_count),
        width(row_width),
        part_rows(std::max((row_count + ChannelRows::kForSums - 1) / ChannelRows::kForSums, int64_t{kWarps})),
        parts((row_count + part_rows - 1) / part_rows) {}

  __device__ int64_t begin() const { return blockIdx.x * part_rows; }
  __device__ int64_t end() const { return begin() + part_rows < rows ? begin() + part_rows : rows; }
};

/// dx = inverse * (g - mean(g) - xhat * mean(g * xhat)), with g = incoming * gamma and xhat = (x - mean) * inverse. The
/// warps of a block take the rows of its part in turn. The block writes its sums to parts[k][part][element], with k = 0
/// for gamma and 1 for beta. A row stays in registers in the type that it has in memory, so that two blocks fit a
/// multiprocessor, or one block for the longest rows.
template <class T, int V, int P>
__global__ void __launch_bounds__(32 * kWarps, P* V > 24 ? 1 : 2)
    backward_kernel(RowParts m, LayerNormBackwardArguments<T> b, float* parts) {
  const int64_t width = m.width;
  float of_gamma[P][V] = {}, of_beta[P][V] = {};
  for (int64_t row = m.begin() + threadIdx.y; row < m.end(); row += kWarps) {
    const int64_t begin = row * width;
    Pack<T, V> x[P] = {}, incoming[P] = {};
    for_each_pack<V, P>(width, [&](int p, int64_t at) {
      x[p] = Pack<T, V>::load(b.x + begin + at);
      incoming[p] = Pack<T, V>::load(b.incoming + begin + at);
    });
    if (b.second != nullptr)
      for_each_pack<V, P>(width, [&](int p, int64_t at) {
        // Rounded as a sum in memory would be.
        const auto second = Pack<T, V>::load(b.second + begin + at);
        for (int v = 0; v < V; ++v) incoming[p].set(v, incoming[p].get(v) + second.get(v));
      });
    const float mean = b.mean[row], inverse = b.inverse_deviation[row];
    float sum = 0, dot = 0;
    for_each_pack<V, P>(width, [&](int p, int64_t at) {
      const auto gamma = Pack<float, V>::load(b.gamma + at);
      for (int v = 0; v < V; ++v) {
        const float normal = (x[p].get(v) - mean) * inverse, g = incoming[p].get(v) * gamma.at[v];
        of_gamma[p][v] += incoming[p].get(v) * normal;
        of_beta[p][v] += incoming[p].get(v);
        sum += g;
        dot += g * normal;
      }
    });
    const float mean_gradient = sum_of_warp(sum) / static_cast<float>(width);
    const float slope = sum_of_warp(dot) / static_cast<float>(width);
    for_each_pack<V, P>(width, [&](int p, int64_t at) {
      const auto gamma = Pack<float, V>::load(b.gamma + at);
      Pack<T, V> out;
      for (int v = 0; v < V; ++v) {
        const float normal = (x[p].get(v) - mean) * inverse, g = incoming[p].get(v) * gamma.at[v];
        out.set(v, inverse * (g - mean_gradient - normal * slope));
      }
      out.store(b.of_sum + begin + at);
      if (b.mask == nullptr) return;
      const auto kept = Pack<uint8_t, V>::load(b.mask + begin + at);
      for (int v = 0; v < V; ++v) out.set(v, kept.at[v] != 0 ? out.get(v) * b.scale : 0.f);
      out.store(b.of_x + begin + at);
    });
  }
  // Adds up the warps' numbers in the order of the warps, for one pack of one parameter at a time. A lane's numbers are
  // an odd number of banks from its neighbor's.
  constexpr int kStride = V > 1 ? V + 1 : 1;
  __shared__ float shared[kWarps][32 * kStride];
#pragma unroll
  for (int k = 0; k < 2; ++k)
#pragma unroll
    for (int p = 0; p < P; ++p) {
      for (int v = 0; v < V; ++v)
        shared[threadIdx.y][threadIdx.x * kStride + v] = k == 0 ? of_gamma[p][v] : of_beta[p][v];
      __syncthreads();
      const int place = static_cast<int>(threadIdx.y * 32 + threadIdx.x);
      const int64_t element = int64_t{p} * 32 * V + place;
      if (place < 32 * V && element < width) {
        float sum = 0;
        for (int warp = 0; warp < kWarps; ++warp) sum += shared[warp][place / V * kStride + place % V];
        parts[(k * m.parts + blockIdx.x) * width + element] = sum;
      }
      __syncthreads();
    }
}

/// Calls f.template operator()<P>() with as few packs of V as a lane needs for a row, or with one or two more.
template <int V, class F>
void with_packs_of_lane(int64_t width, const F& f) {
  const auto needed = static_cast<int>((width + 32 * V - 1) / (32 * V));
  constexpr int kMost = kMostOfALane / V;  // 4, or 8 for f32
  if (needed <= 1) return f.template operator()<1>();
  if (needed <= kMost / 2) return f.template operator()<kMost / 2>();
  if (needed <= kMost * 3 / 4) return f.template operator()<kMost * 3 / 4>();
  return f.template operator()<kMost>();
}

}  // namespace

bool rows_fit_registers(const Tensor& x, const Tensor& also) {
  const int64_t width = x.shape()[-1];
  const int pack = x.dtype() == DType::f32 ? kPackOf<float> : kPackOf<__half>;
  return width <= 32 * kMostOfALane && in_packs(width, pack, {x.raw(), also.defined() ? also.raw() : nullptr});
}

void layer_norm_rows_forward(const LayerNormInputs& in, float epsilon, const LayerNormForward& forward) {
  const int64_t rows = forward.mean.elements(), width = in.gamma.elements();
  with_element_type(in.x, [&]<class T>(ElementType<T>) {
    const LayerNormForwardArguments<T> f(in, epsilon, forward);
    with_packs_of_lane<kPackOf<T>>(width, [&]<int P>() {
      launch("layer_norm", in.x, blocks_of_rows(rows), block_of_warps(), forward_kernel<T, kPackOf<T>, P>, f, rows,
             width);
    });
  });
}

Tensor layer_norm_rows_backward(const LayerNormForward& forward, const Tensor& gamma, const SummedGradient& incoming,
                                const LayerNormInputGradients& of) {
  const int64_t rows = forward.mean.elements(), width = gamma.elements();
  Tensor parts;
  with_element_type(incoming.first, [&]<class T>(ElementType<T>) {
    const LayerNormBackwardArguments<T> b(forward, gamma, incoming, of);
    const RowParts m(rows, width);
    parts = Tensor::empty(gamma.device(), {2, m.parts, width}, {.purpose = MemoryPurpose::workspace});
    with_packs_of_lane<kPackOf<T>>(width, [&]<int P>() {
      launch("layer_norm backward", gamma, static_cast<unsigned>(m.parts), block_of_warps(),
             backward_kernel<T, kPackOf<T>, P>, m, b, parts.data<float>());
    });
  });
  return parts;
}

}  // namespace dptrain::ops::cuda
