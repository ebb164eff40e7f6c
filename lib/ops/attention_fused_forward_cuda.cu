#include "ops/attention_fused_cuda.h"
#include "ops/attention_launch_cuda.h"

namespace dptrain::ops::cuda {
namespace {

/// Adds the values, times the exponentials that have replaced `scores`, to the strip's sums.
template <class Tile, class T>
__device__ void add_values(const float* scores, const T* values, MatrixSum* sums) {
  const T* exponentials = reinterpret_cast<const T*>(scores);
#pragma unroll
  for (int k = 0; k < Tile::kKeys; k += 16) {
    LeftMatrix<T, row_major> left;
    load_shared(left, exponentials + k, Tile::kOfScores);
    add_product<Tile>(left, values + k * Tile::kStride, sums);
  }
}

/// Multiplies each row of the strip's sums by the row's factor. Accumulators don't tell which elements they hold, so
/// the factors are loaded as a matrix with the same arrangement. `room`: 16 floats in each row of scores.
template <class Tile>
__device__ void scale_rows(float factor, float* room, MatrixSum* sums) {
  const LaneShare lane;
  const Pack<float, 4> four{{factor, factor, factor, factor}};
  four.store(room + lane.row * Tile::kScores + 8 * lane.half);
  four.store(room + lane.row * Tile::kScores + 8 * lane.half + 4);
  __syncwarp();
  MatrixSum factors;
  nvcuda::wmma::load_matrix_sync(factors, room, Tile::kScores, nvcuda::wmma::mem_row_major);
#pragma unroll
  for (int d = 0; d < Tile::kWidth / 16; ++d)
#pragma unroll
    for (int e = 0; e < factors.num_elements; ++e) sums[d].x[e] *= factors.x[e];
}

/// Computes y = dropout(softmax(query * key^T * scale)) * value for kQueries queries of a head, and the logarithms of
/// their sums of exponentials. The largest score so far may change from tile to tile, and what has been added up is
/// rescaled with it (Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018). Exponentials are
/// powers of 2.
///
/// Work: 4 * length * D multiplications and additions per query, and one exponential per score. Memory: it reads
/// queries once, and keys and values once for every kQueries queries, which is 4 * length * D / kQueries bytes per
/// query; it writes y, and 4 bytes per query. Shared memory: 4 + 4 + 2 + 2 bytes per score, as tensor cores and lanes
/// store and load it, and D / 4 for its key and value, as 16 queries share them.
template <class T, class Tile>
__global__ void __launch_bounds__(Tile::kThreads, Tile::kBlocks)
    attention_kernel(AttentionHeads heads, const T* query, const T* key, const T* value, T* y, float* log_sums) {
  struct alignas(128) Shared {
    T queries[Tile::kQueries * Tile::kStride];
    T keys[Tile::kKeys * Tile::kStride];
    T values[Tile::kKeys * Tile::kStride];
    float scores[Tile::kQueries * Tile::kScores];
  };
  static_assert(sizeof(Shared) <= kSharedBytes);
  __shared__ Shared shared;
  const HeadOfBlock block(heads, Tile::kQueries);
  const LaneShare lane;
  const int strip = static_cast<int>(threadIdx.y) * 16, first = block.first + strip;
  const int64_t row = block.row + first + lane.row;
  const KeptElements kept(heads.dropout, block.sample);
  const float scale = heads.scale * kLog2OfE;
  float* scores = shared.scores + strip * Tile::kScores;
  load_rows<Tile, Tile::kQueries>(heads, block, query, block.first, heads.positions, shared.queries);
  MatrixSum sums[Tile::kWidth / 16];
#pragma unroll
  for (auto& sum : sums) nvcuda::wmma::fill_fragment(sum, 0.f);
  // `largest` isn't scaled yet. Differences are scaled instead, so that equal scores have a difference of zero, however
  // scaling rounds. `total` is the lane's own.
  float largest = -INFINITY, total = 0;
  for (int begin = 0; begin < block.length; begin += Tile::kKeys) {
    if (begin > 0) __syncthreads();
    load_rows<Tile, Tile::kKeys>(heads, block, key, begin, block.length, shared.keys);
    load_rows<Tile, Tile::kKeys>(heads, block, value, begin, block.length, shared.values);
    __syncthreads();
    if (first >= heads.positions) continue;  // the whole warp
    multiply_rows<Tile>(shared.queries + strip * Tile::kStride, shared.keys, scores);
    __syncwarp();
    float own[Tile::kShare];
    lane.read<Tile>(scores, own);
    const int own_key = begin + lane.half * Tile::kShare;
    if (begin + Tile::kKeys > block.length) {
#pragma unroll
      for (int i = 0; i < Tile::kShare; ++i)
        if (own_key + i >= block.length) own[i] = -INFINITY;
    }
    float now = own[0];
#pragma unroll
    for (int i = 1; i < Tile::kShare; ++i) now = fmaxf(now, own[i]);
    now = fmaxf(now, __shfl_xor_sync(kAllLanes, now, 16));
    now = fmaxf(largest, now);
    const float factor = power_of_2((largest - now) * scale);
    const uint32_t keep = kept.draw<Tile::kShare>(block.number(heads, first + lane.row, own_key));
    largest = now;
    total *= factor;
#pragma unroll
    for (int i = 0; i < Tile::kShare; ++i) {
      own[i] = power_of_2((own[i] - now) * scale);
      total += own[i];
      if ((keep >> i & 1) == 0) own[i] = 0;
    }
    __syncwarp();
    lane.write<T, Tile>(own, reinterpret_cast<T*>(scores));
    if (begin > 0 && __any_sync(kAllLanes, factor != 1.f)) scale_rows<Tile>(factor, scores + Tile::kKeys / 2, sums);
    __syncwarp();
    add_values<Tile>(scores, shared.values, sums);
  }
  if (first >= heads.positions) return;
  total = sum_of_row(total);
  // Without keys there are no sums, and the output is zeros.
  const bool any = block.length > 0;
  if (lane.half == 0 && first + lane.row < heads.positions)
    log_sums[row] = any ? (largest * scale + log2f(total)) * kLogOf2 : 0.f;
  write_rows<Tile>(heads, block, sums, any ? heads.dropout.scale / total : 0.f, scores, first, heads.positions, y);
}

}  // namespace

AttentionForward fused_attention_forward(const AttentionInputs& in, const AttentionOptions& options) {
  const Shape& shape = in.query.shape();
  const AttentionForward forward{.y = Tensor::empty(in.query.device(), shape, {.dtype = in.query.dtype()}),
                                 .kept = Tensor::empty(in.query.device(), {shape[0], options.heads, shape[1]})};
  const AttentionHeads heads = heads_of(in, options, {in.query.raw(), in.key.raw(), in.value.raw(), forward.y.raw()});
  with_attention_tile(in.query, heads.width, [&]<class T, class Tile>() {
    launch_heads<Tile>("attention", in.query, Tile::kQueries, attention_kernel<T, Tile>, heads, in.query.data<T>(),
                       in.key.data<T>(), in.value.data<T>(), forward.y.data<T>(), forward.kept.data<float>());
  });
  return forward;
}

}  // namespace dptrain::ops::cuda
