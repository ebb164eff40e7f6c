#pragma once

#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <vector>

#include "ops/update_groups.h"
#include "tensor/tensor.h"

namespace dptrain::ops {

/// Weights of a flat buffer that follow each other and are of one tensor of a model: all of it, or a part of it.
struct TensorRun {
  int64_t tensor = 0;    ///< its number in the model
  int64_t elements = 0;  ///< a multiple of 16
  UpdateFactors factors = {};
  bool adapts = true;  ///< whether the tensor's updates are scaled by its norms
};

/// A row of TensorTable::chunks.
struct TensorChunk {
  static constexpr int64_t kNumbers = 3;
  int64_t begin;
  int64_t elements;
  int64_t tensor;

  static constexpr TensorChunk at(const int64_t* chunks, int64_t i) {
    const int64_t* row = chunks + kNumbers * i;
    return {row[0], row[1], row[2]};
  }
};

/// A row of TensorTable::numbers: what an update's numbers are multiplied by for a tensor, and whether it adapts.
struct TensorNumbers {
  static constexpr int64_t kNumbers = 3;
  double rate_factor;
  double decay_factor;
  bool adapts;

  static constexpr TensorNumbers of(const double* numbers, int64_t tensor) {
    const double* row = numbers + kNumbers * tensor;
    return {row[0], row[1], row[2] != 0};
  }
};

/// Where the tensors of a flat buffer lie, for updates that differ by tensor: by chunks, each of one tensor.
struct TensorTable {
  static constexpr int64_t kChunk = 8192;  ///< weights at most

  int64_t tensors = 0;     ///< of the model
  int64_t elements = 0;    ///< of the buffer
  Tensor chunks = {};      ///< i64 [chunks, 3]: a TensorChunk each
  Tensor of_tensors = {};  ///< i64 [tensors, 2]: which chunks are a tensor's, from the first to before the second
  Tensor numbers = {};     ///< f64 [tensors, 3]: TensorNumbers of each

  int64_t count() const { return chunks.defined() ? chunks.shape()[0] : 0; }
};

/// The table of runs in a row, whose tensors come in order, of a model of so many.
TensorTable make_tensor_table(Device& device, const std::vector<TensorRun>& runs, int64_t tensors);

/// Throws 70, naming the operator, unless all of these that are defined have as many elements as the table has weights,
/// and begin where 4 of them may be read at once, and the sums are no_tensor_squares of its model.
void require_flat(std::string_view op, const TensorTable& table, const Tensor& squares,
                  std::initializer_list<const Tensor*> buffers);

/// Sums of nothing yet of so many tensors: f64 [tensors, 2, 16], of each two exact sums of squares (square_digits.h),
/// of its weights and of what they are updated by. Those of parts of a tensor, and of tensors, are added up like any
/// numbers, in any order.
Tensor no_tensor_squares(Device& device, int64_t tensors);

}  // namespace dptrain::ops
