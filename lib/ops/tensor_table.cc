#include "ops/tensor_table.h"

#include <algorithm>

#include "base/check.h"
#include "ops/dispatch.h"
#include "ops/optimizer_table.h"
#include "ops/square_digits.h"

namespace dptrain::ops {

TensorTable make_tensor_table(Device& device, const std::vector<TensorRun>& runs, int64_t tensors) {
  constexpr int64_t kAligned = 16;
  std::vector<int64_t> chunks, of_tensors(static_cast<size_t>(2 * tensors));
  std::vector<double> numbers(static_cast<size_t>(TensorNumbers::kNumbers * tensors), 1.0);
  int64_t begin = 0, before = -1;
  for (const TensorRun& run : runs) {
    DPTRAIN_CHECK(run.elements % kAligned == 0 && run.tensor >= before && run.tensor < tensors,
                  "{} weights of tensor {} of {} behind tensor {}", run.elements, run.tensor, tensors, before);
    const auto tensor = static_cast<size_t>(run.tensor);
    if (run.tensor != before) of_tensors[2 * tensor] = std::ssize(chunks) / TensorChunk::kNumbers;
    for (int64_t at = 0; at < run.elements; at += TensorTable::kChunk)
      chunks.insert(chunks.end(), {begin + at, std::min(TensorTable::kChunk, run.elements - at), run.tensor});
    of_tensors[2 * tensor + 1] = std::ssize(chunks) / TensorChunk::kNumbers;
    const double row[] = {run.factors.learning_rate, run.factors.weight_decay, run.adapts ? 1.0 : 0.0};
    std::ranges::copy(row, numbers.begin() + static_cast<int64_t>(tensor) * TensorNumbers::kNumbers);
    begin += run.elements;
    before = run.tensor;
  }
  return {
      .tensors = tensors,
      .elements = begin,
      .chunks = optimizer_table(device, {std::ssize(chunks) / TensorChunk::kNumbers, TensorChunk::kNumbers}, chunks),
      .of_tensors = optimizer_table(device, {tensors, 2}, of_tensors),
      .numbers = optimizer_table(device, {tensors, TensorNumbers::kNumbers}, numbers)};
}

void require_flat(std::string_view op, const TensorTable& table, const Tensor& squares,
                  std::initializer_list<const Tensor*> buffers) {
  DPTRAIN_CHECK(squares.defined(), "{}: nothing has been measured", op);
  require_shape(op, "sums of squares", squares.shape(), {table.tensors, 2, kSquareSumNumbers});
  for (const Tensor* buffer : buffers) {
    if (!buffer->defined()) continue;
    require_shape(op, "buffer", buffer->shape(), {table.elements});
    DPTRAIN_CHECK(reinterpret_cast<uintptr_t>(buffer->raw()) % (4 * dtype_bytes(buffer->dtype())) == 0,
                  "{}: a buffer that begins between packs of 4", op);
  }
}

Tensor no_tensor_squares(Device& device, int64_t tensors) {
  return Tensor::zeros(device, {tensors, 2, kSquareSumNumbers},
                       {.dtype = DType::f64, .purpose = MemoryPurpose::workspace});
}

}  // namespace dptrain::ops
