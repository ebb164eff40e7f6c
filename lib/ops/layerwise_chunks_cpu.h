#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "device/parallel_for.h"
#include "ops/square_digits.h"
#include "ops/square_run_cpu.h"
#include "ops/tensor_table.h"

// What CPU workers need for computations that depend on norms of tensors, divided among threads by chunks.

namespace dptrain::ops::cpu {

inline TensorChunk chunk_at(const TensorTable& table, int64_t i) {
  return TensorChunk::at(table.chunks.data<int64_t>(), i);
}

/// Whether the buffer contains any part of the tensor.
inline bool has_part(const TensorTable& table, int64_t tensor) {
  const auto* chunks = table.of_tensors.data<int64_t>() + 2 * tensor;
  return chunks[0] < chunks[1];
}

/// Calls measure(chunk, first run, second run) for each chunk and adds the runs to their tensors' sums.
template <class Measure>
void measure_chunks(const TensorTable& table, const Tensor& squares, const Measure& measure) {
  if (!squares.device().computes()) return;
  std::vector<SquareRun> weights(static_cast<size_t>(table.count())), updates(weights.size());
  parallel_for(squares.device(), table.count(), [&](int64_t i) {
    const auto k = static_cast<size_t>(i);
    measure(chunk_at(table, i), weights[k], updates[k]);
  });
  const auto* of_tensors = table.of_tensors.data<int64_t>();
  auto* sums = squares.data<double>();
  for (int64_t tensor = 0; tensor < table.tensors; ++tensor) {
    if (!has_part(table, tensor)) continue;
    const auto begin = static_cast<size_t>(of_tensors[2 * tensor]),
               count = static_cast<size_t>(of_tensors[2 * tensor + 1]) - begin;
    add_runs(std::span(weights).subspan(begin, count), sums + 2 * tensor * kSquareSumNumbers);
    add_runs(std::span(updates).subspan(begin, count), sums + (2 * tensor + 1) * kSquareSumNumbers);
  }
}

}  // namespace dptrain::ops::cpu
