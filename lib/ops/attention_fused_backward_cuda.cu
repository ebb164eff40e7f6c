#include "ops/attention_fused_cuda.h"
#include "ops/attention_launch_cuda.h"

// Two kernels, in which a block adds up everything that it writes. A block of the first takes some queries and goes
// through the keys. A block of the second takes some keys and goes through the queries. Both compute scores and
// probabilities again. With P the probabilities, M the factors of dropout, and g = incoming * value^T:
//   score gradient = P * (g * M - d), d = sum of a row's P * M * g = sum of its y * incoming
//   query gradient = scale * score gradient * key
//   key gradient = scale * score gradient^T * query
//   value gradient = (P * M)^T * incoming
// The last multiplication is by `scale`, or by 1 / (1 - dropout) for the value gradient, in float.

namespace dptrain::ops::cuda {
namespace {

/// A warp's strip of queries and a tile of keys, in shared memory, as a lane sees them.
template <class T>
struct StripOfScores {
  const T* queries;
  const T* incoming;
  const T* keys;
  const T* values;
  float* scores;    ///< room for the strip's scores
  int first_query;  ///< number in the head
  int first_key;
  float log_sum;     ///< of the lane's row
  float product;     ///< d of the lane's row
  T* probabilities;  ///< where the lane's go, dropped ones as 0; null: nowhere
};

/// Computes the score gradients of a lane's keys.
template <class T, class Tile>
class ScoreGradients {
 public:
  __device__ ScoreGradients(const AttentionHeads& heads, const HeadOfBlock& block)
      : heads_(heads), block_(block), kept_(heads.dropout, block.sample), scale_(heads.scale * kLog2OfE) {}

  /// Computes the probabilities last, so that few of them are held at once. Afterwards no lane reads `scores` any more.
  __device__ void compute(const StripOfScores<T>& strip, float (&gradients)[Tile::kShare]) const {
    const int key = strip.first_key + lane_.half * Tile::kShare;
    multiply_rows<Tile>(strip.incoming, strip.values, strip.scores);
    const uint32_t keep = kept_.template draw<Tile::kShare>(block_.number(heads_, strip.first_query + lane_.row, key));
    __syncwarp();
    lane_.template read<Tile>(strip.scores, gradients);
#pragma unroll
    for (int i = 0; i < Tile::kShare; ++i)
      gradients[i] = ((keep >> i & 1) != 0 ? gradients[i] * heads_.dropout.scale : 0.f) - strip.product;
    __syncwarp();
    multiply_rows<Tile>(strip.queries, strip.keys, strip.scores);
    __syncwarp();
    const float* own = strip.scores + lane_.row * Tile::kScores + lane_.half * Tile::kShare;
#pragma unroll
    for (int i = 0; i < Tile::kShare; i += 8) {
      float exponents[8];
      Pack<T, 8> kept;
#pragma unroll
      for (int k = 0; k < 8; ++k) exponents[k] = own[i + k] * scale_ - strip.log_sum * kLog2OfE;
      if (strip.first_key + Tile::kKeys > block_.length) {
#pragma unroll
        for (int k = 0; k < 8; ++k)
          if (key + i + k >= block_.length) exponents[k] = -INFINITY;
      }
#pragma unroll
      for (int k = 0; k < 8; ++k) {
        const float probability = power_of_2(exponents[k]);
        gradients[i + k] *= probability;
        kept.set(k, (keep >> (i + k) & 1) != 0 ? probability : 0.f);
      }
      if (strip.probabilities != nullptr) kept.store(strip.probabilities + i);
    }
    __syncwarp();
  }

 private:
  const AttentionHeads& heads_;
  const HeadOfBlock& block_;
  KeptElements kept_;
  float scale_;
  LaneShare lane_;
};

/// Computes the query gradients of kQueries queries, and each query's d, which the other kernel reads.
///
/// Work: 6 * length * D multiplications and additions per query, and one exponential per score. Memory: it reads
/// queries, outputs and their gradients once, and keys and values once for every kQueries queries; it writes 2 * D + 4
/// bytes per query. Shared memory: 8 + 8 + 2 + 2 bytes per score, and 3 * D / 8.
template <class T, class Tile>
__global__ void __launch_bounds__(Tile::kThreads, Tile::kBlocks)
    attention_query_gradient_kernel(AttentionHeads heads, const T* query, const T* key, const T* value, const T* y,
                                    const T* incoming, const float* log_sums, float* products, T* query_gradient) {
  struct alignas(128) Shared {
    T queries[Tile::kQueries * Tile::kStride];
    T incoming[Tile::kQueries * Tile::kStride];
    T keys[2 * Tile::kKeys * Tile::kStride];  // and values
    float scores[Tile::kQueries * Tile::kScores];
  };
  static_assert(sizeof(Shared) <= kSharedBytes && 2 * Tile::kKeys >= Tile::kQueries);
  __shared__ Shared shared;
  T* const values = shared.keys + Tile::kKeys * Tile::kStride;
  const HeadOfBlock block(heads, Tile::kQueries);
  const LaneShare lane;
  const int strip = static_cast<int>(threadIdx.y) * 16, first = block.first + strip;
  const bool mine = first + lane.row < heads.positions;
  const int64_t row = block.row + first + lane.row;
  load_rows<Tile, Tile::kQueries>(heads, block, query, block.first, heads.positions, shared.queries);
  load_rows<Tile, Tile::kQueries>(heads, block, incoming, block.first, heads.positions, shared.incoming);
  load_rows<Tile, Tile::kQueries>(heads, block, y, block.first, heads.positions, shared.keys);
  __syncthreads();
  float product = 0;
#pragma unroll
  for (int i = 0; i < Tile::kWidth / 2; i += 8) {
    const int at = (strip + lane.row) * Tile::kStride + lane.half * (Tile::kWidth / 2) + i;
    const auto of_y = Pack<T, 8>::load(shared.keys + at), of_incoming = Pack<T, 8>::load(shared.incoming + at);
#pragma unroll
    for (int k = 0; k < 8; ++k) product += of_y.get(k) * of_incoming.get(k);
  }
  product = sum_of_row(product);
  if (lane.half == 0 && mine) products[row] = product;
  const float log_sum = mine ? log_sums[row] : 0.f;
  const ScoreGradients<T, Tile> scores_of(heads, block);
  float* scores = shared.scores + strip * Tile::kScores;
  MatrixSum sums[Tile::kWidth / 16];
#pragma unroll
  for (auto& sum : sums) nvcuda::wmma::fill_fragment(sum, 0.f);
  for (int begin = 0; begin < block.length; begin += Tile::kKeys) {
    __syncthreads();
    load_rows<Tile, Tile::kKeys>(heads, block, key, begin, block.length, shared.keys);
    load_rows<Tile, Tile::kKeys>(heads, block, value, begin, block.length, values);
    __syncthreads();
    if (first >= heads.positions) continue;  // the whole warp
    float gradients[Tile::kShare];
    scores_of.compute({.queries = shared.queries + strip * Tile::kStride,
                       .incoming = shared.incoming + strip * Tile::kStride,
                       .keys = shared.keys,
                       .values = values,
                       .scores = scores,
                       .first_query = first,
                       .first_key = begin,
                       .log_sum = log_sum,
                       .product = product,
                       .probabilities = nullptr},
                      gradients);
    T* const of_scores = reinterpret_cast<T*>(scores);
    lane.template write<T, Tile>(gradients, of_scores);
    __syncwarp();
#pragma unroll
    for (int k = 0; k < Tile::kKeys; k += 16) {
      LeftMatrix<T, row_major> left;
      load_shared(left, of_scores + k, Tile::kOfScores);
      add_product<Tile>(left, shared.keys + k * Tile::kStride, sums);
    }
  }
  if (first >= heads.positions) return;
  write_rows<Tile>(heads, block, sums, heads.scale, scores, first, heads.positions, query_gradient);
}

/// Computes the gradients of kKeys keys and of their values. It takes kQueries queries at a time, in two steps. First
/// each warp computes the probabilities and score gradients of its strip of queries for all keys. Then each warp adds
/// up its share of both gradients over all the queries; all shares have the same size.
///
/// Work: 8 * S * D multiplications and additions per key, and one exponential per score. Memory: it reads keys and
/// values once, and queries, the output's gradients and 8 bytes per query once for every kKeys keys; it writes 4 * D
/// bytes per key. Shared memory: 8 + 8 + 4 + 4 bytes per score, and D / 2.
template <class T, class Tile>
__global__ void __launch_bounds__(Tile::kThreads, Tile::kBlocks)
    attention_key_gradient_kernel(AttentionHeads heads, const T* query, const T* key, const T* value, const T* incoming,
                                  const float* log_sums, const float* products, T* key_gradient, T* value_gradient) {
  constexpr int kProbabilities = Tile::kKeys + 8;  // from row to row, in elements
  struct alignas(128) Shared {
    T keys[Tile::kKeys * Tile::kStride];
    T values[Tile::kKeys * Tile::kStride];
    T queries[Tile::kQueries * Tile::kStride];
    T incoming[Tile::kQueries * Tile::kStride];
    T probabilities[Tile::kQueries * kProbabilities];
    float scores[Tile::kQueries * Tile::kScores];
  };
  static_assert(sizeof(Shared) <= kSharedBytes);
  __shared__ Shared shared;
  const HeadOfBlock block(heads, Tile::kKeys);
  const LaneShare lane;
  const int warp = static_cast<int>(threadIdx.y), strip = 16 * warp;
  const ScoreGradients<T, Tile> scores_of(heads, block);
  float* scores = shared.scores + strip * Tile::kScores;
  // The sums of a warp. Sum number `kSums * warp + i` is for 16 keys, added up over the queries: even numbers are
  // gradients of keys, odd numbers are gradients of values.
  constexpr int kSums = 2 * (Tile::kKeys / 16) / Tile::kWarps;
  MatrixSum sums[kSums][Tile::kWidth / 16];
#pragma unroll
  for (auto& of_keys : sums)
#pragma unroll
    for (auto& sum : of_keys) nvcuda::wmma::fill_fragment(sum, 0.f);
  load_rows<Tile, Tile::kKeys>(heads, block, key, block.first, block.length, shared.keys);
  load_rows<Tile, Tile::kKeys>(heads, block, value, block.first, block.length, shared.values);
  const int queries = block.first < block.length ? heads.positions : 0;
  for (int begin = 0; begin < queries; begin += Tile::kQueries) {
    if (begin > 0) __syncthreads();
    load_rows<Tile, Tile::kQueries>(heads, block, query, begin, queries, shared.queries);
    load_rows<Tile, Tile::kQueries>(heads, block, incoming, begin, queries, shared.incoming);
    __syncthreads();
    const int first = begin + strip;
    if (first < queries) {
      // Past the last query the output's gradients are zeros, so that those rows add zeros.
      const bool mine = first + lane.row < queries;
      const int64_t row = block.row + first + lane.row;
      float gradients[Tile::kShare];
      scores_of.compute(
          {.queries = shared.queries + strip * Tile::kStride,
           .incoming = shared.incoming + strip * Tile::kStride,
           .keys = shared.keys,
           .values = shared.values,
           .scores = scores,
           .first_query = first,
           .first_key = block.first,
           .log_sum = mine ? log_sums[row] : 0.f,
           .product = mine ? products[row] : 0.f,
           .probabilities = shared.probabilities + (strip + lane.row) * kProbabilities + lane.half * Tile::kShare},
          gradients);
      lane.template write<T, Tile>(gradients, reinterpret_cast<T*>(scores));
    }
    __syncthreads();
    const T* of_scores = reinterpret_cast<const T*>(shared.scores);
    for (int q = 0; q < Tile::kQueries && begin + q < queries; q += 16) {
#pragma unroll
      for (int i = 0; i < kSums; ++i) {
        const int number = kSums * warp + i, keys = number / 2 * 16;
        const bool of_values = number % 2 != 0;
        LeftMatrix<T, col_major> left;
        if (of_values)
          load_shared(left, shared.probabilities + q * kProbabilities + keys, kProbabilities);
        else
          load_shared(left, of_scores + q * Tile::kOfScores + keys, Tile::kOfScores);
        add_product<Tile>(left, (of_values ? shared.incoming : shared.queries) + q * Tile::kStride, sums[i]);
      }
    }
  }
  __syncthreads();
#pragma unroll
  for (int i = 0; i < kSums; ++i) {
    const int number = kSums * warp + i, keys = block.first + number / 2 * 16;
    const bool of_values = number % 2 != 0;
    write_rows<Tile>(heads, block, sums[i], of_values ? heads.dropout.scale : heads.scale, scores, keys,
                     heads.positions, of_values ? value_gradient : key_gradient);
  }
}

}  // namespace

AttentionGradients fused_attention_backward(const AttentionInputs& in, const AttentionForward& forward,
                                            const Tensor& incoming, const AttentionOptions& options) {
  const Tensor &query = in.query, &key = in.key, &value = in.value;
  const auto empty = [&] { return Tensor::empty(query.device(), query.shape(), {.dtype = query.dtype()}); };
  const AttentionGradients gradients{.query = empty(), .key = empty(), .value = empty()};
  const Tensor products = Tensor::empty(query.device(), forward.kept.shape(), {.purpose = MemoryPurpose::workspace});
  const AttentionHeads heads = heads_of(in, options,
                                        {query.raw(), key.raw(), value.raw(), forward.y.raw(), incoming.raw(),
                                         gradients.query.raw(), gradients.key.raw(), gradients.value.raw()});
  const float* log_sums = forward.kept.data<float>();
  with_attention_tile(query, heads.width, [&]<class T, class Tile>() {
    launch_heads<Tile>("attention's query gradient", query, Tile::kQueries, attention_query_gradient_kernel<T, Tile>,
                       heads, query.data<T>(), key.data<T>(), value.data<T>(), forward.y.data<T>(), incoming.data<T>(),
                       log_sums, products.data<float>(), gradients.query.data<T>());
    launch_heads<Tile>("attention's key gradient", query, Tile::kKeys, attention_key_gradient_kernel<T, Tile>, heads,
                       query.data<T>(), key.data<T>(), value.data<T>(), incoming.data<T>(), log_sums,
                       products.data<float>(), gradients.key.data<T>(), gradients.value.data<T>());
  });
  return gradients;
}

}  // namespace dptrain::ops::cuda
