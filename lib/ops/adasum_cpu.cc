#include "ops/adasum_cpu.h"

#include <algorithm>
#include <vector>

#include "ops/adasum_factors.h"
#include "ops/elementwise_kernels.h"
#include "ops/layerwise_chunks_cpu.h"
#include "ops/square_sum_kernels.h"

namespace dptrain::ops::cpu {
namespace {

/// Returns number_of(tensor) for each tensor that the buffers have a part of.
template <class NumberOf>
auto for_tensors(const TensorTable& table, const NumberOf& number_of) {
  std::vector<decltype(number_of(int64_t{}))> numbers(static_cast<size_t>(table.tensors));
  for (int64_t tensor = 0; tensor < table.tensors; ++tensor)
    if (has_part(table, tensor)) numbers[static_cast<size_t>(tensor)] = number_of(tensor);
  return numbers;
}

}  // namespace

void adasum_squares(const Tensor& first, const Tensor& second, const TensorTable& table, const Tensor& norms,
                    const Tensor& squares) {
  if (!squares.device().computes()) return;
  const auto scales =
      for_tensors(table, [&](int64_t tensor) { return SquaredNorms::of(norms.data<double>(), tensor).scales(); });
  measure_chunks(table, squares, [&](const TensorChunk& chunk, SquareRun& of_sums, SquareRun& of_differences) {
    const AdasumScales& own = scales[static_cast<size_t>(chunk.tensor)];
    const auto first_scale = static_cast<float>(own.first), second_scale = static_cast<float>(own.second);
    float sums[kSquareBlock], differences[kSquareBlock];
    for (int64_t done = 0; done < chunk.elements; done += kSquareBlock) {
      const int64_t count = std::min(kSquareBlock, chunk.elements - done);
      const float *a = first.data<float>() + chunk.begin + done, *b = second.data<float>() + chunk.begin + done;
      for (int64_t i = 0; i < count; ++i) {
        sums[i] = first_scale * a[i] + second_scale * b[i];
        differences[i] = first_scale * a[i] - second_scale * b[i];
      }
      of_sums.add(sums, count);
      of_differences.add(differences, count);
    }
  });
}

void adasum(const Tensor& first, const Tensor& second, const TensorTable& table, const Tensor& norms,
            const Tensor& squares) {
  if (!first.device().computes()) return;
  const auto factors = for_tensors(table, [&](int64_t tensor) {
    return adasum_factors(SquaredNorms::of(norms.data<double>(), tensor),
                          SquaredNorms::of(squares.data<double>(), tensor));
  });
  parallel_for(first.device(), table.count(), [&](int64_t i) {
    const TensorChunk chunk = chunk_at(table, i);
    const AdasumFactors& own = factors[static_cast<size_t>(chunk.tensor)];
    float *a = first.data<float>() + chunk.begin, *b = second.data<float>() + chunk.begin;
    elementwise_kernels().scale(a, own.first, chunk.elements);
    elementwise_kernels().scale(b, own.second, chunk.elements);
    elementwise_kernels().add_into(a, b, chunk.elements);
  });
}

}  // namespace dptrain::ops::cpu
