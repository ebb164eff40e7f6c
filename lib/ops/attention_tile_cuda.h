#pragma once

#include "ops/attention_dropout_cuda.h"
#include "ops/warp_cuda.h"
#include "ops/warp_matrix_cuda.h"

// What the kernels of attention_fused_*_cuda.cu share: how heads are cut into tiles, and what a warp does with them.
// For .cu files only.
//
// A block has a head of a sample, (32, kWarps) threads, and in shared memory tiles of its matrices: rows of T. A warp
// has a strip of 16 queries and, for a tile of keys, their scores: 16 rows of floats, which tensor cores write and
// lanes read. What becomes of them, T again, lies in the same rows. Lane `row + 16 * half` has half of a row: whether
// its keys are dropped it draws alone, and a row's sums take one shuffle.
//
// Rows are 16 bytes longer than they need be, an odd number of 16 bytes: eight lanes that load or store 16 bytes each
// of eight rows that follow one another, as ldmatrix and our own loops do, meet each of the 32 banks once.
// Accumulators, stored by 8 bytes a lane, meet some of them twice.
//
// What limits them are the instructions of a score and shared memory, neither memory nor tensor cores: of sm_90a's
// forward takes about 16 a score, the gradients of queries 22, those of keys 26, and each of them 18 more to draw what
// is dropped. Registers, 128 a thread, and shared memory, 46 KiB at most, leave a multiprocessor four blocks of any of
// the kernels. In nvcc 13.0 the gradients of keys are short of a few registers, which are spilled where a tile of keys
// is the last one of its head.

namespace dptrain::ops::cuda {

/// Tiles of heads of up to kWidth columns: as many keys at a time as leave each kernel's shared memory within the 48
/// KiB that need no opt-in.
template <int kWidthOfTile>
struct AttentionTile {
  static constexpr int kWidth = kWidthOfTile;
  static constexpr int kWarps = kWidth <= 64 ? 4 : 2;
  static constexpr int kThreads = 32 * kWarps;
  static constexpr int kBlocks = 4;  ///< of a multiprocessor, at least: registers are spared for them
  static constexpr int kQueries = 16 * kWarps;
  static constexpr int kKeys = kWidth <= 32 ? 64 : 32;
  static constexpr int kShare = kKeys / 2;       ///< keys of a lane
  static constexpr int kStride = kWidth + 8;     ///< from row to row, in elements
  static constexpr int kScores = kKeys + 4;      ///< from row to row of scores, in floats
  static constexpr int kOfScores = 2 * kScores;  ///< and in elements of what becomes of them
};
inline constexpr size_t kSharedBytes = 48 * 1024;

/// What a kernel knows of all heads.
struct AttentionHeads {
  int heads, positions, width;
  int64_t columns;         ///< of all heads
  const int32_t* lengths;  ///< null: all keys are read
  float scale;
  bool packs;  ///< a head's rows can be read and written by 16 bytes
  AttentionDropout dropout;
};

constexpr float kLog2OfE = 1.44269504088896341f, kLogOf2 = 0.693147180559945309f;

/// The block's place. Blocks of a head follow one another: they read the same keys and values.
struct HeadOfBlock {
  int first;    ///< row of the head, where the block's begin
  int length;   ///< keys that are read
  int sample;   ///< in the batch
  int head;     ///< in the sample
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
  /// The number that what a query has for a key has in the sample's [H, S, S].
  __device__ int64_t number(const AttentionHeads& heads, int query, int key) const {
    return (int64_t{head} * heads.positions + query) * heads.positions + key;
  }
};

/// Rows `first` on of a head go to shared memory, kRows of them. Zeros stand for those from `end` on, and for columns
/// that the head hasn't: products then add nothing, whatever lies in memory.
template <class Tile, int kRows, class T>
__device__ void load_rows(const AttentionHeads& heads, const HeadOfBlock& block, const T* from, int first, int end,
                          T* to) {
  constexpr int kPacks = Tile::kWidth / 8, kStep = Tile::kThreads / kPacks;  // of a row; rows at a time
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

/// A lane's share of a row of the warp's strip.
struct LaneShare {
  int row = static_cast<int>(threadIdx.x) % 16;
  int half = static_cast<int>(threadIdx.x) / 16;

  /// Its keys' scores.
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
  /// Rounded to T, where the scores of its strip were.
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

/// Added up over a row's two lanes, on both.
__device__ inline float sum_of_row(float own) { return own + __shfl_xor_sync(kAllLanes, own, 16); }

/// 2^x within 2 units in the last place, and 0 where that would be denormal.
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

/// scores = strip * keys^T, [16, kKeys], of a strip of rows and a tile of them: 32 keys at a time, as registers are
/// few.
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

/// sums += left * rows: 16 rows of a tile, and what they are multiplied by.
template <class Tile, class T, class Layout>
__device__ void add_product(const LeftMatrix<T, Layout>& left, const T* rows, MatrixSum* sums) {
#pragma unroll
  for (int d = 0; d < Tile::kWidth / 16; ++d) {
    RightMatrix<T, row_major> right;
    load_shared(right, rows + 16 * d, Tile::kStride);
    nvcuda::wmma::mma_sync(sums[d], left, right, sums[d]);
  }
}

/// Sums of 16 rows, times `factor`, become rows `first` on of the head, up to `end`. `room`: 16 rows of scores, which
/// are written over; the warp has read them.
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
