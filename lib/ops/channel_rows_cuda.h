#pragma once

#include <numeric>
#include <type_traits>

#include "ops/cuda_kernels.h"

namespace dptrain::ops::cuda {

/// Rows of channels, from images in nhwc or from any matrix, and how a grid walks over them. A thread keeps V
/// neighboring channels and goes down the rows of its block's part. The parts depend on the shape alone and sums over
/// rows are folded part by part, without atomics, so that every GPU gets the same bits.
///
///   block (lanes, row threads): `lanes` packs of V channels side by side, 256 threads in all
///   grid (tiles of channels, parts of rows)
///
/// If V doesn't divide the channels, the walk takes `fold` rows side by side as one row, so that V divides its columns:
/// eight rows of 21 channels are 168 columns in packs of 8. Column i is then channel i % channels, and a part's column
/// sums count as `fold` parts of each channel.
struct ChannelRows {
  int64_t channels = 0;
  int64_t fold = 1;     ///< image rows that the walk takes as one row
  int64_t rows = 0;     ///< of the walk
  int64_t columns = 0;  ///< of a row of the walk
  int64_t part_rows = 0;
  int64_t parts = 0;
  unsigned lanes = 1;
  unsigned tiles = 1;

  /// The most blocks of a walk. By default (kForSums) four for each of 132 multiprocessors, and no more: each part is a
  /// number to be folded later. Kernels that sum nothing take more (kForMaps).
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
    // At least four rows per thread.
    const int64_t fewest_rows = int64_t{4} * row_threads();
    part_rows = (rows + most_parts - 1) / most_parts;
    if (part_rows < fewest_rows) part_rows = fewest_rows;
    parts = (rows + part_rows - 1) / part_rows;
  }

  static int64_t fold_of(int64_t channels, int pack) { return pack / std::gcd(channels, int64_t{pack}); }
  /// Whether packs of `pack` channels cover the rows.
  static bool can_be_walked(int64_t rows, int64_t channels, int pack) { return rows % fold_of(channels, pack) == 0; }

  /// The number of parts, of `channels` numbers each, that fold_parts adds up after write_part_sums has written the
  /// column sums.
  __host__ __device__ int64_t sums() const { return parts * fold; }
  /// The number of rows of the images.
  __host__ __device__ int64_t image_rows() const { return rows * fold; }

  unsigned row_threads() const { return kThreads / lanes; }
  dim3 block() const { return dim3(lanes, row_threads()); }
  dim3 grid() const { return dim3(tiles, static_cast<unsigned>(parts)); }

  // For a kernel of this grid:

  /// The first of the thread's columns. It is past the end if the tile overhangs.
  template <int V>
  __device__ int64_t first_column() const {
    return (int64_t{blockIdx.x} * lanes + threadIdx.x) * V;
  }
  /// Calls f(i, channel) for each of the V columns `column + i`.
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

  /// Calls use(row, load(row)) for the thread's rows in order. U rows are loaded before the first of them is used.
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

/// The number of rows of channels in x: [N, C, H, W] in nhwc, or [N, C].
inline int64_t rows_of(const Tensor& x) { return x.elements() / x.shape()[1]; }

/// Calls f(ElementType<T>(), std::integral_constant<int, V>()). T is the element type of x, which has rows of channels
/// (see rows_of). V elements are 16 bytes if such packs cover the rows and can be read at all `pointers`; else V is 1.
template <class F>
void with_pack(const Tensor& x, std::initializer_list<const void*> pointers, const F& f) {
  with_element_type(x, [&]<class T>(ElementType<T> type) {
    if (ChannelRows::can_be_walked(rows_of(x), x.shape()[1], kPackOf<T>) && in_packs(0, kPackOf<T>, pointers))
      f(type, std::integral_constant<int, kPackOf<T>>());
    else
      f(type, std::integral_constant<int, 1>());
  });
}

/// Allocates f32 elements for a kernel's own use.
inline Tensor scratch(Device& device, int64_t elements) {
  return Tensor::empty(device, {elements}, {.purpose = MemoryPurpose::workspace});
}

/// Adds up each thread's K numbers for each of its V columns over the row threads of the block, in the order of the
/// rows, and writes the sums to `to[k][part][column]`. All threads of the block must call it.
template <int V, int K>
__device__ void write_part_sums(const ChannelRows& m, const float (&own)[K][V], float* const (&to)[K]) {
  // A thread's numbers are an odd number of banks from its neighbor's, so that an access meets no bank twice.
  constexpr unsigned kStride = V > 1 ? V + 1 : 1;
  __shared__ float shared[kThreads * kStride];
  const unsigned thread = threadIdx.y * blockDim.x + threadIdx.x;
#pragma unroll
  for (int k = 0; k < K; ++k) {
    for (int i = 0; i < V; ++i) shared[thread * kStride + i] = own[k][i];
    __syncthreads();
    // The threads of the first rows take a column each, so that writes are coalesced.
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

/// The grid of fold_parts: a block takes 32 neighboring channels, and 32 parts at a time.
inline constexpr int kFoldLanes = 32;
inline constexpr int kFoldRows = 32;
inline constexpr int kFoldThreads = kFoldLanes * kFoldRows;
inline unsigned fold_blocks(int64_t channels) {
  return static_cast<unsigned>((channels + kFoldLanes - 1) / kFoldLanes);
}
inline dim3 fold_block() { return dim3(kFoldLanes, kFoldRows); }
__device__ inline int64_t fold_channel() { return int64_t{blockIdx.x} * kFoldLanes + threadIdx.x; }

/// For the thread's fold_channel(), sums[k] = the sum over parts of parts[k][part][channel], in double. Each row of
/// threads adds every 32nd part, and a tree folds the rows. Reads of neighboring channels are one access. All threads
/// of the block must call it; those of row 0 get the sums.
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
    // Row 0 has written it itself. Other rows would read it while row 0 still writes.
    sums[k] = threadIdx.y == 0 ? shared[0][threadIdx.x] : 0;
    __syncthreads();
  }
}

}  // namespace dptrain::ops::cuda
