#pragma once

#include "ops/square_run_cuda.h"
#include "ops/tensor_table.h"

// What the kernels of optimizers that go by norms of tensors share: a block of kThreads for each chunk, whose threads
// take every kThreads-th pack of 4 weights. For .cu files only.

namespace dptrain::ops::cuda {

static_assert(TensorTable::kChunk == kRun);
inline constexpr int kChunkPack = 4;
inline constexpr int kChunkPacks = kEach / kChunkPack;  ///< of a thread

/// Where the packs of this block's chunk lie, and whose weights they are.
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
  /// Of the thread's k-th pack, in the chunk.
  __device__ static int offset(int k) { return (k * kThreads + static_cast<int>(threadIdx.x)) * kChunkPack; }
  __device__ bool has(int k) const { return offset(k) < count; }
};

/// The squares of the chunk's weights.
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

/// Adds two runs of each chunk, of weights and of what they are updated by, to the sums of their tensors, unless
/// `skip` (i32 [1], or undefined) isn't 0.
void add_tensor_runs(const TensorTable& table, const Tensor& runs, const Tensor& squares, const Tensor& skip = {});
/// Room for two runs of each chunk.
Tensor runs_of_chunks(const TensorTable& table);

}  // namespace dptrain::ops::cuda
