#include "ops/tensor_table.h"

#include <algorithm>

#include "base/check.h"
#include "ops/dispatch.h"
#include "ops/square_digits.h"

namespace dptrain::ops {
namespace {

template <class T>
Tensor uploaded(Device& device, const Shape& shape, const std::vector<T>& values) {
  const Tensor tensor = Tensor::empty(device, shape, {.dtype = dtype_of<T>(), .purpose = MemoryPurpose::optimizer});
  device.upload(tensor.raw(), values.data(), tensor.bytes());
  return tensor;
}

}  // namespace

TensorTable make_tensor_table(Device& device, const std::vector<TensorRun>& runs, int64_t tensors) {
  constexpr int64_t kAligned = 16;
  std::vector<int64_t> chunks, of_tensors(static_cast<size_t>(2 * tensors));
  std::vector<double> numbers(static_cast<size_t>(3 * tensors), 1.0);
  int64_t begin = 0, before = -1;
  for (const TensorRun& run : runs) {
    DPTRAIN_CHECK(run.elements % kAligned == 0 && run.tensor >= before && run.tensor < tensors,
                  "{} weights of tensor {} of {} behind tensor {}", run.elements, run.tensor, tensors, before);
    const auto tensor = static_cast<size_t>(run.tensor);
    if (run.tensor != before) of_tensors[2 * tensor] = std::ssize(chunks) / 3;
    for (int64_t at = 0; at < run.elements; at += TensorTable::kChunk)
      chunks.insert(chunks.end(), {begin + at, std::min(TensorTable::kChunk, run.elements - at), run.tensor});
    of_tensors[2 * tensor + 1] = std::ssize(chunks) / 3;
    numbers[3 * tensor] = run.factors.learning_rate;
    numbers[3 * tensor + 1] = run.factors.weight_decay;
    numbers[3 * tensor + 2] = run.adapts ? 1 : 0;
    begin += run.elements;
    before = run.tensor;
  }
  return {.tensors = tensors,
          .elements = begin,
          .chunks = uploaded(device, {std::ssize(chunks) / 3, 3}, chunks),
          .of_tensors = uploaded(device, {tensors, 2}, of_tensors),
          .numbers = uploaded(device, {tensors, 3}, numbers)};
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
