#pragma once

#include "ops/attention_dropout_cuda.h"
#include "ops/warp_cuda.h"
#include "ops/warp_matrix_cuda.h"

// What the kernels of attention_fused_*_cuda.cu share: how heads are cut into tiles, and what a warp does with them.
// For .cu files only.
//
// A block of (32, kWarps) threads works on one head of one sample. It holds tiles of the head's matrices, rows of T, in
// shared memory. A warp has a strip of 16 queries and their scores for a tile of keys: 16 rows of floats, which tensor
// cores write and lanes read. What is computed from the scores, in T again, is written over the same rows. Half of a
// row belongs to lane `row + 16 * half`. The lane draws alone which of its keys are dropped, and a row's sum takes one
// shuffle.
//
// Rows are padded by 16 bytes, so that their length is an odd multiple of 16 bytes. ldmatrix and our own loops load or
// store 16 bytes per lane with eight lanes on eight consecutive rows: they access each of the 32 banks once.
// Accumulators, stored with 8 bytes per lane, access some banks twice.
//
// The limits are instructions per score and shared memory, neither device memory nor tensor cores. On sm_90a, forward
// takes about 16 instructions per score, the gradients of queries 22 and those of keys 26. Each of them takes 18 more
// to draw what is dropped. Registers, 128 per thread, and shared memory, 46 KiB at most, leave a multiprocessor room
// for four blocks of any of the kernels. With nvcc 13.0 the kernel for the gradients of keys lacks a few registers and
// spills them in the last tile of keys of a head.

namespace dptrain::ops::cuda {

/// The tiles of heads of up to kWidth columns. A tile has as many keys as keep each kernel's shared memory within the
/// 48 KiB that need no opt-in.
template <int kWidthOfTile>
struct AttentionTile {
  static constexpr int kWidth = kWidthOfTile;
  static constexpr int kWarps = kWidth <= 64 ? 4 : 2;
  static constexpr int kThreads = 32 * kWarps;
  static constexpr int kBlocks = 4;  ///< per multiprocessor, at least; limits registers
  static constexpr int kQueries = 16 * kWarps;
  static constexpr int kKeys = kWidth <= 32 ? 64 : 32;
  static constexpr int kShare = kKeys / 2;       ///< keys per lane
  static constexpr int kStride = kWidth + 8;     ///< from row to row, in elements
  static constexpr int kScores = kKeys + 4;      ///< from row to row of scores, in floats
  static constexpr int kOfScores = 2 * kScores;  ///< the same in elements of T
};
inline constexpr size_t kSharedBytes = 48 * 1024;

/// What a kernel needs to know about all heads.
struct AttentionHeads {
  int heads, positions, width;
  int64_t columns;         ///< of a row: those of all heads
  const int32_t* lengths;  ///< null: all keys are read
  float scale;
  bool packs;  ///< a head's rows can be read and written 16 bytes at a time
  AttentionDropout dropout;
};

constexpr float kLog2OfE = 1.44269504088896341f, kLogOf2 = 0.693147180559945309f;

/// The place of a block. The blocks of a head follow each other, as they read the same keys and values.
struct HeadOfBlock {
  int first;    ///< the first of the head's rows that the block takes
  int length;   ///< keys that are read
  int sample;   ///< the sample's number in the batch
  int head;     ///< the head's number in the sample
  int64_t at;   ///< the head's first element in [N, S, H * D]
  int64_t row;  ///< the head's first row in [N, H, S]

  __device__ HeadOfBlock(const AttentionHeads& heads, int rows) {
    const unsigned blocks = static_cast<unsigned>((heads.positions + rows - 1) / rows), number = blockIdx.x / blocks;
    first = static_cast<int>(blockIdx.x % blocks) * rows;
    head = static_cast<int>(number % static_cast<unsigned>(heads.heads));
    sample = static_cast<int>(number / static_cast<unsigned>(heads.heads));
    length = heads.lengths != nullptr ? heads.lengths[sample] : heads.positions;
    at = int64_t{sample} * heads.positions * heads.columns + head * heads.width;
    row = (int64_t{sample} * heads.heads + head) * heads.positions;
  }
  /// The index of a query's number for a key in the sample's [H, S, S].
  __device__ int64_t number(const AttentionHeads& heads, int query, int key) const {
    return (int64_t{head} * heads.positions + query) * heads.positions + key;
  }
};

/// Copies kRows rows of a head, from row `first` on, to shared memory. Rows from `end` on and columns past the head's
/// width become zeros, so that they add nothing to products, whatever is in memory.
template <class Tile, int kRows, class T>
__device__ void load_rows(const AttentionHeads& heads, const HeadOfBlock& block, const T* from, int first, int end,
                          T* to) {
  constexpr int kPacks = Tile::kWidth / 8, kStep = Tile::kThreads / kPacks;  // packs per row; rows at a time
  const int thread = static_cast<int>(32 * threadIdx.y + threadIdx.x);
  const int row = thread / kPacks, column = thread % kPacks * 8;
  const T* source = from + block.at + int64_t{first + row} * heads.columns + column;
  T* target = to + row * Tile::kStride + column;
  const T zero = from_float<T>(0.f);
  if (heads.packs) {
#pragma unroll
    for (int step = 0; step < kRows; step += kStep) {
      Pack<T, 8> pack{{zero, zero, zero, zero, zero, zero, zero, zero}};
      if (first + row + step < end && column < heads.width) pack = Pack<T, 8>::load(source + step * heads.columns);
      pack.store(target + step * Tile::kStride);
    }
    return;
  }
  for (int step = 0; step < kRows; step += kStep)
    for (int k = 0; k < 8; ++k) {
      const bool there = first + row + step < end && column + k < heads.width;
      target[step * Tile::kStride + k] = there ? source[step * heads.columns + k] : zero;
    }
}

/// The share of a lane in the warp's strip: half of a row.
struct LaneShare {
  int row = static_cast<int>(threadIdx.x) % 16;
  int half = static_cast<int>(threadIdx.x) / 16;

  /// Reads the scores of the lane's keys.
  template <class Tile>
  __device__ void read(const float* scores, float (&to)[Tile::kShare]) const {
    const float* from = scores + row * Tile::kScores + half * Tile::kShare;
#pragma unroll
    for (int i = 0; i < Tile::kShare; i += 4) {
      const auto pack = Pack<float, 4>::load(from + i);
#pragma unroll
      for (int k = 0; k < 4; ++k) to[i + k] = pack.at[k];
    }
  }
  /// Writes the values, rounded to T, over the scores of the strip.
  template <class T, class Tile>
  __device__ void write(const float (&values)[Tile::kShare], T* to) const {
#pragma unroll
    for (int i = 0; i < Tile::kShare; i += 8) {
      Pack<T, 8> pack;
#pragma unroll
      for (int k = 0; k < 8; ++k) pack.set(k, values[i + k]);
      pack.store(to + row * Tile::kOfScores + half * Tile::kShare + i);
    }
  }
};

/// Adds up the numbers of a row's two lanes. Both get the sum.
__device__ inline float sum_of_row(float own) { return own + __shfl_xor_sync(kAllLanes, own, 16); }

/// Returns 2^x within 2 units in the last place, or 0 if the result would be denormal.
__device__ inline float power_of_2(float x) {
#if defined(__CUDA_ARCH__)
  // exp2f takes three more instructions for denormals.
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#else
  return exp2f(x);
#endif
}

/// scores = strip * keys^T, [16, kKeys]: the products of a strip of rows and a tile of rows. It takes 32 keys at a
/// time, as registers are few.
template <class Tile, class T>
__device__ void multiply_rows(const T* strip, const T* keys, float* scores) {
#pragma unroll 1
  for (int begin = 0; begin < Tile::kKeys; begin += 32) {
    MatrixSum sums[2];
#pragma unroll
    for (auto& sum : sums) nvcuda::wmma::fill_fragment(sum, 0.f);
#pragma unroll
    for (int d = 0; d < Tile::kWidth; d += 16) {
      LeftMatrix<T, row_major> left;
      load_shared(left, strip + d, Tile::kStride);
#pragma unroll
      for (int n = 0; n < 2; ++n) {
        RightMatrix<T, col_major> right;
        load_shared(right, keys + (begin + 16 * n) * Tile::kStride + d, Tile::kStride);
        nvcuda::wmma::mma_sync(sums[n], left, right, sums[n]);
      }
    }
#pragma unroll
    for (int n = 0; n < 2; ++n)
      nvcuda::wmma::store_matrix_sync(scores + begin + 16 * n, sums[n], Tile::kScores, nvcuda::wmma::mem_row_major);
  }
}

/// sums += left * rows, where `rows` are 16 rows of a tile.
template <class Tile, class T, class Layout>
__device__ void add_product(const LeftMatrix<T, Layout>& left, const T* rows, MatrixSum* sums) {
#pragma unroll
  for (int d = 0; d < Tile::kWidth / 16; ++d) {
    RightMatrix<T, row_major> right;
    load_shared(right, rows + 16 * d, Tile::kStride);
    nvcuda::wmma::mma_sync(sums[d], left, right, sums[d]);
  }
}

/// Writes the sums of 16 rows to rows `first` on of the head, up to `end`. Each row is multiplied by its lanes'
/// `factor`. `room`: 16 rows of scores that the warp has read; they are overwritten.
template <class Tile, class T>
__device__ void write_rows(const AttentionHeads& heads, const HeadOfBlock& block, const MatrixSum* sums, float factor,
                           float* room, int first, int end, T* to) {
  constexpr int kColumns = Tile::kWidth < Tile::kKeys ? Tile::kWidth : Tile::kKeys;
  const LaneShare lane;
#pragma unroll
  for (int begin = 0; begin < Tile::kWidth; begin += kColumns) {
    __syncwarp();
#pragma unroll
    for (int n = 0; n < kColumns; n += 16)
      nvcuda::wmma::store_matrix_sync(room + n, sums[(begin + n) / 16], Tile::kScores, nvcuda::wmma::mem_row_major);
    __syncwarp();
    if (first + lane.row >= end) continue;
#pragma unroll
    for (int i = 0; i < kColumns / 2; i += 8) {
      const int within = lane.half * (kColumns / 2) + i, column = begin + within;
      Pack<T, 8> pack;
#pragma unroll
      for (int k = 0; k < 8; ++k) pack.set(k, room[lane.row * Tile::kScores + within + k] * factor);
      T* row = to + block.at + int64_t{first + lane.row} * heads.columns + column;
      if (heads.packs && column < heads.width) {
        pack.store(row);
      } else {
#pragma unroll
        for (int k = 0; k < 8; ++k)
          if (column + k < heads.width) row[k] = pack.at[k];
      }
    }
  }
}

}  // namespace dptrain::ops::cuda
