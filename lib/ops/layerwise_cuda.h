#pragma once

#include "ops/square_run_cuda.h"
#include "ops/tensor_table.h"

// What the kernels of LARS and LAMB share, whose updates depend on norms of tensors. A block of kThreads takes a chunk,
// and a thread takes every kThreads-th pack of 4 weights. For .cu files only.

namespace dptrain::ops::cuda {

static_assert(TensorTable::kChunk == kRun);
inline constexpr int kChunkPack = 4;
inline constexpr int kChunkPacks = kEach / kChunkPack;  ///< packs per thread

/// The chunk of this block: where its weights begin, and which tensor they belong to.
struct ChunkOfBlock {
  int64_t begin;
  int count;
  int64_t tensor;

  __device__ explicit ChunkOfBlock(const int64_t* chunks) {
    const TensorChunk own = TensorChunk::at(chunks, blockIdx.x);
    begin = own.begin;
    count = static_cast<int>(own.elements);
    tensor = own.tensor;
  }
  /// The offset in the chunk of the thread's k-th pack.
  __device__ static int offset(int k) { return (k * kThreads + static_cast<int>(threadIdx.x)) * kChunkPack; }
  __device__ bool has(int k) const { return offset(k) < count; }
};

/// Writes the sum of the squares of the chunk's weights to `run`.
__device__ inline void write_square_run_of(const ChunkOfBlock& chunk, const float* weights, int64_t* run) {
  float own[kEach];
#pragma unroll
  for (int k = 0; k < kChunkPacks; ++k) {
    Pack<float, kChunkPack> pack = {};
    if (chunk.has(k)) pack = Pack<float, kChunkPack>::load(weights + chunk.begin + ChunkOfBlock::offset(k));
#pragma unroll
    for (int i = 0; i < kChunkPack; ++i) own[k * kChunkPack + i] = pack.at[i];
  }
  write_square_run(own, run);
}

/// Adds up the two runs of each chunk, one for its weights and one for their updates, in the sums of its tensor. Does
/// nothing if `skip` (i32 [1], or undefined) isn't 0.
void add_tensor_runs(const TensorTable& table, const Tensor& runs, const Tensor& squares, const Tensor& skip = {});
/// Allocates memory for two runs of each chunk.
Tensor runs_of_chunks(const TensorTable& table);

}  // namespace dptrain::ops::cuda
