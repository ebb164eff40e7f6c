#pragma once

#include "ops/cuda_kernels.h"

namespace dptrain::ops::cuda {

/// Images in nhwc, or any matrix, as rows of channels, and how a grid walks over them: a thread keeps V neighbouring
/// channels and goes down the rows of its block's part. A part's rows depend on the shape alone, so that sums over
/// rows, folded part by part, end in the same bits on every GPU; nothing is added atomically.
///
///   block (lanes, row threads): `lanes` packs of V channels side by side, 256 threads in all
///   grid (tiles of channels, parts of rows)
struct ChannelRows {
  int64_t rows = 0;
  int64_t channels = 0;
  int64_t part_rows = 0;
  int64_t parts = 0;
  unsigned lanes = 1;
  unsigned tiles = 1;

  /// With packs of `pack` channels, which divides `channels`. By default parts enough for four blocks on each of 132
  /// multiprocessors: each part is a number to be folded later. What sums nothing takes more of them.
  static constexpr int64_t kForSums = 528;
  static constexpr int64_t kForMaps = 4224;
  ChannelRows(int64_t row_count, int64_t channel_count, int pack, int64_t most_blocks = kForSums)
      : rows(row_count), channels(channel_count) {
    const int64_t packs = channels / pack;
    while (lanes < 32 && lanes < packs) lanes *= 2;
    tiles = static_cast<unsigned>((packs + lanes - 1) / lanes);
    const int64_t most_parts = most_blocks / tiles > 0 ? most_blocks / tiles : 1;
    // Four rows a thread at least.
    const int64_t fewest_rows = int64_t{4} * row_threads();
    part_rows = (rows + most_parts - 1) / most_parts;
    if (part_rows < fewest_rows) part_rows = fewest_rows;
    parts = (rows + part_rows - 1) / part_rows;
  }

  unsigned row_threads() const { return kThreads / lanes; }
  dim3 block() const { return dim3(lanes, row_threads()); }
  dim3 grid() const { return dim3(tiles, static_cast<unsigned>(parts)); }

  // In a kernel of this grid:

  /// The first of the thread's channels; past the end where the tile hangs over.
  template <int V>
  __device__ int64_t first_channel() const {
    return (int64_t{blockIdx.x} * lanes + threadIdx.x) * V;
  }
  __device__ int64_t first_row() const { return blockIdx.y * part_rows + threadIdx.y; }
  __device__ int64_t end_row() const {
    const int64_t end = (blockIdx.y + int64_t{1}) * part_rows;
    return end < rows ? end : rows;
  }
  __device__ int64_t row_step() const { return blockDim.y; }
};

/// The pack for a matrix whose rows begin at `pointers` and have `channels` channels of T: of 16 bytes, or single
/// elements.
template <class T>
bool channels_in_packs(int64_t channels, std::initializer_list<const void*> pointers) {
  return in_packs(channels, kPackOf<T>, pointers);
}

/// Adds K numbers of each of a thread's V channels over the row threads of the block, in order of the rows, and writes
/// them as `to[k][part][channel]`. Called by all threads of the block.
template <int V, int K>
__device__ void write_part_sums(const ChannelRows& m, const float (&own)[K][V], float* const (&to)[K]) {
  __shared__ float shared[kThreads * V];
  for (int k = 0; k < K; ++k) {
    for (int i = 0; i < V; ++i) shared[(threadIdx.y * blockDim.x + threadIdx.x) * V + i] = own[k][i];
    __syncthreads();
    // The threads of the first rows take a channel each, so that writing is coalesced.
    const unsigned thread = threadIdx.y * blockDim.x + threadIdx.x;
    const int64_t channel = int64_t{blockIdx.x} * blockDim.x * V + thread;
    if (thread < blockDim.x * V && channel < m.channels) {
      float sum = 0;
      for (unsigned row = 0; row < blockDim.y; ++row) sum += shared[row * blockDim.x * V + thread];
      to[k][blockIdx.y * m.channels + channel] = sum;
    }
    __syncthreads();
  }
}

/// The sum over parts of `parts[part][channel]`, in double, by the 32 lanes of a warp: each adds every 32nd part, and
/// their sums are folded as a tree. All lanes get it.
__device__ inline double fold_parts(const float* parts, int64_t part_count, int64_t channels, int64_t channel) {
  double sum = 0;
  for (int64_t part = threadIdx.x; part < part_count; part += 32) sum += parts[part * channels + channel];
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
  return sum;
}

/// Grid and block for kernels that give each channel a warp: 8 channels a block.
inline constexpr int kFoldWarps = 8;
inline unsigned fold_blocks(int64_t channels) {
  return static_cast<unsigned>((channels + kFoldWarps - 1) / kFoldWarps);
}
inline dim3 fold_block() { return dim3(32, kFoldWarps); }

}  // namespace dptrain::ops::cuda
