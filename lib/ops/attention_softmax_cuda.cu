#include <cmath>

#include "base/random.h"
#include "ops/attention_softmax_cuda.h"
#include "ops/warp_cuda.h"

// A warp takes a row. Its lanes take groups of four keys that share a block of random words, and fold their numbers by
// shuffles, always in the same order. Only the first pass over a row reads from memory.

namespace dptrain::ops::cuda {
namespace {

/// What the kernels need to know about all rows.
struct Rows {
  int64_t count, positions, heads;
  const int32_t* lengths;  ///< null: all keys are read
  float scale;
  // Dropout, if the threshold isn't 0:
  uint32_t threshold;
  float keep_scale;
  uint64_t seed;
  uint32_t layer;
  const int32_t* epoch;
  const int64_t* ids;

  __device__ int64_t sample(int64_t row) const { return row / (heads * positions); }
  __device__ int64_t length(int64_t row) const { return lengths != nullptr ? lengths[sample(row)] : positions; }

  /// Calls each(key, factor of dropout) for the lane's share of the row's keys.
  template <class Each>
  __device__ void for_each_key(int64_t row, const Each& each) const {
    const int64_t first = row % (heads * positions) * positions, within = first % 4;
    for (int64_t group = threadIdx.x; 4 * group < within + positions; group += 32) {
      float keep[4] = {1, 1, 1, 1};
      if (threshold != 0) {
        const KeyedRandom random(seed, RandomPurpose::dropout, static_cast<uint32_t>(*epoch),
                                 static_cast<uint32_t>(ids[sample(row)]));
        const auto words = random.words((uint64_t{layer} << 40) + static_cast<uint64_t>(first / 4 + group));
        for (int i = 0; i < 4; ++i) keep[i] = words[static_cast<size_t>(i)] >= threshold ? keep_scale : 0.f;
      }
      for (int i = 0; i < 4; ++i) {
        const int64_t key = 4 * group + i - within;
        if (key >= 0 && key < positions) each(key, keep[i]);
      }
    }
  }
};

template <class T>
__global__ void softmax_kernel(Rows rows, const float* scores, T* probabilities, T* dropped) {
  const int64_t row = row_of_warp();
  if (row >= rows.count) return;
  const int64_t length = rows.length(row), at = row * rows.positions;
  float largest = -INFINITY;
  for (int64_t key = threadIdx.x; key < length; key += 32) largest = fmaxf(largest, scores[at + key]);
  for (int step = 16; step > 0; step /= 2) largest = fmaxf(largest, __shfl_xor_sync(kAllLanes, largest, step));
  float own = 0;
  for (int64_t key = threadIdx.x; key < length; key += 32) own += expf((scores[at + key] - largest) * rows.scale);
  const float sum = sum_of_warp(own), inverse = 1.f / sum;
  rows.for_each_key(row, [&](int64_t key, float keep) {
    const float exponential = key < length ? expf((scores[at + key] - largest) * rows.scale) : 0.f;
    const T probability = from_float<T>(key < length ? exponential * inverse : 0.f);
    probabilities[at + key] = probability;
    if (rows.threshold != 0) dropped[at + key] = from_float<T>(to_float(probability) * keep);
  });
}

/// score gradient = scale * P * (g - sum of P * g), with P the probabilities and g their gradients.
template <class T>
__global__ void softmax_backward_kernel(Rows rows, const T* probabilities, const float* dropped_gradients,
                                        T* score_gradients, T* dropped) {
  const int64_t row = row_of_warp();
  if (row >= rows.count) return;
  const int64_t at = row * rows.positions;
  float own = 0;
  rows.for_each_key(row, [&](int64_t key, float keep) {
    own += to_float(probabilities[at + key]) * dropped_gradients[at + key] * keep;
  });
  const float product = sum_of_warp(own);
  rows.for_each_key(row, [&](int64_t key, float keep) {
    const float probability = to_float(probabilities[at + key]);
    const float gradient = dropped_gradients[at + key] * keep;
    score_gradients[at + key] = from_float<T>(rows.scale * probability * (gradient - product));
    if (rows.threshold != 0) dropped[at + key] = from_float<T>(probability * keep);
  });
}

Rows rows_of(const AttentionInputs& in, const AttentionOptions& options) {
  const Shape& shape = in.query.shape();
  const bool dropping = options.dropout > 0;
  return {.count = shape[0] * options.heads * shape[1],
          .positions = shape[1],
          .heads = options.heads,
          .lengths = data_or_null<int32_t>(in.lengths),
          .scale = 1.f / std::sqrt(static_cast<float>(shape[2] / options.heads)),
          .threshold = dropout_threshold(options.dropout),
          .keep_scale = 1.f / (1.f - options.dropout),
          .seed = options.key.seed,
          .layer = options.key.layer,
          .epoch = dropping ? options.key.epoch.data<int32_t>() : nullptr,
          .ids = dropping ? options.key.sample_ids.data<int64_t>() : nullptr};
}

/// Copies between [samples, positions, heads, packs] and [samples, heads, positions, packs], by packs of V.
template <class T, int V>
__global__ void heads_kernel(const T* from, T* to, int64_t count, int64_t positions, int64_t heads, int64_t packs,
                             bool split) {
  for (int64_t i = global_thread(); i < count; i += global_threads()) {
    // `i` is the place of a pack in the split heads, and `merged` is its place in the merged ones.
    const int64_t pack = i % packs, position = i / packs % positions, head = i / (packs * positions) % heads;
    const int64_t sample = i / (packs * positions * heads);
    const int64_t merged = ((sample * positions + position) * heads + head) * packs + pack;
    Pack<T, V>::load(from + (split ? merged : i) * V).store(to + (split ? i : merged) * V);
  }
}

/// Splits or merges heads. `shape`: [N, S, H * D].
void move_heads(const Tensor& from, const Tensor& to, const Shape& shape, int64_t heads, bool split) {
  const int64_t width = shape[2] / heads;
  with_element_type(from, [&]<class T>(ElementType<T>) {
    const auto move = [&]<int V>() {
      const int64_t count = from.elements() / V;
      launch("heads", to, blocks_for(to, count), kThreads, heads_kernel<T, V>, from.data<T>(), to.data<T>(), count,
             shape[1], heads, width / V, split);
    };
    if (in_packs(width, kPackOf<T>, {from.raw(), to.raw()}))
      move.template operator()<kPackOf<T>>();
    else
      move.template operator()<1>();
  });
}

}  // namespace

void attention_softmax(const AttentionInputs& in, const AttentionOptions& options, const Tensor& scores,
                       const Tensor& probabilities, const Tensor& dropped) {
  const Rows rows = rows_of(in, options);
  with_element_type(probabilities, [&]<class T>(ElementType<T>) {
    launch("attention softmax", scores, blocks_of_rows(rows.count), block_of_warps(), softmax_kernel<T>, rows,
           scores.data<float>(), probabilities.data<T>(), dropped.data<T>());
  });
}

void attention_softmax_backward(const AttentionInputs& in, const AttentionOptions& options, const Tensor& probabilities,
                                const Tensor& dropped_gradients, const Tensor& score_gradients, const Tensor& dropped) {
  const Rows rows = rows_of(in, options);
  with_element_type(probabilities, [&]<class T>(ElementType<T>) {
    launch("attention softmax backward", probabilities, blocks_of_rows(rows.count), block_of_warps(),
           softmax_backward_kernel<T>, rows, probabilities.data<T>(), dropped_gradients.data<float>(),
           score_gradients.data<T>(), dropped.data<T>());
  });
}

Tensor split_heads(const Tensor& x, int64_t heads) {
  const Shape& shape = x.shape();
  const Tensor split = Tensor::empty(x.device(), {shape[0] * heads, shape[1], shape[2] / heads},
                                     {.dtype = x.dtype(), .purpose = MemoryPurpose::workspace});
  move_heads(x, split, shape, heads, true);
  return split;
}

Tensor merge_heads(const Tensor& x, const Shape& shape, int64_t heads) {
  const Tensor merged = Tensor::empty(x.device(), shape, {.dtype = x.dtype()});
  move_heads(x, merged, shape, heads, false);
  return merged;
}

}  // namespace dptrain::ops::cuda
