#pragma once

#include <numeric>
#include <type_traits>

#include "ops/cuda_kernels.h"

namespace dptrain::ops::cuda {

/// Images in nhwc, or any matrix, as rows of channels, and how a grid walks over them: a thread keeps V neighbouring
/// channels and goes down the rows of its block's part. A part's rows depend on the shape alone, so that sums over
/// rows, folded part by part, end in the same bits on every GPU; nothing is added atomically.
///
///   block (lanes, row threads): `lanes` packs of V channels side by side, 256 threads in all
///   grid (tiles of channels, parts of rows)
///
/// Where V doesn't divide the channels, the walk takes as many rows side by side as one as V does divide: eight of 21
/// channels are 168 columns in packs of 8. Column i is channel i % channels then, and the columns' sums of a part are
/// what `fold` parts have of each channel.
struct ChannelRows {
  int64_t channels = 0;
  int64_t fold = 1;     ///< rows that the walk takes as one
  int64_t rows = 0;     ///< of the walk
  int64_t columns = 0;  ///< of such a row
  int64_t part_rows = 0;
  int64_t parts = 0;
  unsigned lanes = 1;
  unsigned tiles = 1;

  /// With packs of `pack` channels; see can_be_walked. By default parts enough for four blocks on each of 132
  /// multiprocessors: each part is a number to be folded later. What sums nothing takes more of them.
  static constexpr int64_t kForSums = 528;
  static constexpr int64_t kForMaps = 4224;
  ChannelRows(int64_t row_count, int64_t channel_count, int pack, int64_t most_blocks = kForSums)
      : channels(channel_count),
        fold(fold_of(channel_count, pack)),
        rows(row_count / fold),
        columns(channel_count * fold) {
    const int64_t packs = columns / pack;
    while (lanes < 32 && lanes < packs) lanes *= 2;
    tiles = static_cast<unsigned>((packs + lanes - 1) / lanes);
    const int64_t most_parts = most_blocks / tiles > 0 ? most_blocks / tiles : 1;
    // Four rows a thread at least.
    const int64_t fewest_rows = int64_t{4} * row_threads();
    part_rows = (rows + most_parts - 1) / most_parts;
    if (part_rows < fewest_rows) part_rows = fewest_rows;
    parts = (rows + part_rows - 1) / part_rows;
  }

  static int64_t fold_of(int64_t channels, int pack) { return pack / std::gcd(channels, int64_t{pack}); }
  /// Whether packs of so many cover the rows.
  static bool can_be_walked(int64_t rows, int64_t channels, int pack) { return rows % fold_of(channels, pack) == 0; }

  /// Parts that fold_parts adds up, of `channels` each, where write_part_sums has left the columns' sums.
  __host__ __device__ int64_t sums() const { return parts * fold; }
  /// Rows of the images.
  __host__ __device__ int64_t image_rows() const { return rows * fold; }

  unsigned row_threads() const { return kThreads / lanes; }
  dim3 block() const { return dim3(lanes, row_threads()); }
  dim3 grid() const { return dim3(tiles, static_cast<unsigned>(parts)); }

  // In a kernel of this grid:

  /// The first of the thread's columns; past the end where the tile hangs over.
  template <int V>
  __device__ int64_t first_column() const {
    return (int64_t{blockIdx.x} * lanes + threadIdx.x) * V;
  }
  /// Calls f(i, its channel) for the V columns from `column` on.
  template <int V, class F>
  __device__ void for_each_channel(int64_t column, const F& f) const {
    const auto count = static_cast<uint32_t>(channels);
    auto channel = static_cast<uint32_t>(column);
    if (fold > 1) channel %= count;
#pragma unroll
    for (int i = 0; i < V; ++i) {
      f(i, channel);
      if (++channel == count) channel = 0;
    }
  }

  /// Calls use(row, load(row)) for the thread's rows in order, with the loads of U of them before the first use.
  template <int U, class Load, class Use>
  __device__ void for_each_row(const Load& load, const Use& use) const {
    const int64_t end = end_row(), step = row_step();
    int64_t row = first_row();
    for (; row + (U - 1) * step < end; row += U * step) {
      decltype(load(row)) loaded[U];
#pragma unroll
      for (int u = 0; u < U; ++u) loaded[u] = load(row + u * step);
#pragma unroll
      for (int u = 0; u < U; ++u) use(row + u * step, loaded[u]);
    }
    for (; row < end; row += step) use(row, load(row));
  }

  __device__ int64_t first_row() const { return blockIdx.y * part_rows + threadIdx.y; }
  __device__ int64_t end_row() const {
    const int64_t end = (blockIdx.y + int64_t{1}) * part_rows;
    return end < rows ? end : rows;
  }
  __device__ int64_t row_step() const { return blockDim.y; }
};

/// Rows of channels in x: [N, C, H, W] in nhwc or [N, C].
inline int64_t rows_of(const Tensor& x) { return x.elements() / x.shape()[1]; }

/// Calls f(ElementType<T>(), std::integral_constant<int, V>()) for the type of x, as rows_of takes it, and the pack
/// that walks over its rows at `pointers`: of 16 bytes, or single elements.
template <class F>
void with_pack(const Tensor& x, std::initializer_list<const void*> pointers, const F& f) {
  with_element_type(x, [&]<class T>(ElementType<T> type) {
    if (ChannelRows::can_be_walked(rows_of(x), x.shape()[1], kPackOf<T>) && in_packs(0, kPackOf<T>, pointers))
      f(type, std::integral_constant<int, kPackOf<T>>());
    else
      f(type, std::integral_constant<int, 1>());
  });
}

/// f32 elements for a kernel's own use.
inline Tensor scratch(Device& device, int64_t elements) {
  return Tensor::empty(device, {elements}, {.purpose = MemoryPurpose::workspace});
}

/// Adds K numbers of each of a thread's V columns over the row threads of the block, in order of the rows, and writes
/// them as `to[k][part][column]`. Called by all threads of the block.
template <int V, int K>
__device__ void write_part_sums(const ChannelRows& m, const float (&own)[K][V], float* const (&to)[K]) {
  // A thread's numbers lie an odd number of banks from its neighbour's, so that each access is one.
  constexpr unsigned kStride = V > 1 ? V + 1 : 1;
  __shared__ float shared[kThreads * kStride];
  const unsigned thread = threadIdx.y * blockDim.x + threadIdx.x;
#pragma unroll
  for (int k = 0; k < K; ++k) {
    for (int i = 0; i < V; ++i) shared[thread * kStride + i] = own[k][i];
    __syncthreads();
    // The threads of the first rows take a column each, so that writing is coalesced.
    const int64_t column = int64_t{blockIdx.x} * blockDim.x * V + thread;
    if (thread < blockDim.x * V && column < m.columns) {
      const unsigned place = thread / V * kStride + thread % V;
      float sum = 0;
      for (unsigned row = 0; row < blockDim.y; ++row) sum += shared[row * blockDim.x * kStride + place];
      to[k][blockIdx.y * m.columns + column] = sum;
    }
    __syncthreads();
  }
}

/// A grid for folding: a block takes 32 channels side by side, and as many parts at a time.
inline constexpr int kFoldLanes = 32;
inline constexpr int kFoldRows = 32;
inline constexpr int kFoldThreads = kFoldLanes * kFoldRows;
inline unsigned fold_blocks(int64_t channels) {
  return static_cast<unsigned>((channels + kFoldLanes - 1) / kFoldLanes);
}
inline dim3 fold_block() { return dim3(kFoldLanes, kFoldRows); }
__device__ inline int64_t fold_channel() { return int64_t{blockIdx.x} * kFoldLanes + threadIdx.x; }

/// sums[k] = the sum over parts of parts[k][part][channel], in double, of the thread's fold_channel(): each row of
/// threads adds every 32nd part, and the rows are folded as a tree. Called by all threads of the block; those of row 0
/// get the sums. Reads of neighbouring channels are one access.
template <int K>
__device__ void fold_parts(const float* const (&parts)[K], int64_t part_count, int64_t channels, double (&sums)[K]) {
  __shared__ double shared[kFoldRows][kFoldLanes];
  const int64_t channel = fold_channel();
  double own[K] = {};
  if (channel < channels) {
#pragma unroll 8
    for (int64_t part = threadIdx.y; part < part_count; part += kFoldRows)
      for (int k = 0; k < K; ++k) own[k] += parts[k][part * channels + channel];
  }
#pragma unroll
  for (int k = 0; k < K; ++k) {
    shared[threadIdx.y][threadIdx.x] = own[k];
    for (unsigned step = kFoldRows / 2; step > 0; step /= 2) {
      __syncthreads();
      if (threadIdx.y < step) shared[threadIdx.y][threadIdx.x] += shared[threadIdx.y + step][threadIdx.x];
    }
    // Written by this row itself; the others would read while it still writes.
    sums[k] = threadIdx.y == 0 ? shared[0][threadIdx.x] : 0;
    __syncthreads();
  }
}

}  // namespace dptrain::ops::cuda
