#pragma once

#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <vector>

#include "ops/update_groups.h"
#include "tensor/tensor.h"

namespace dptrain::ops {

/// Consecutive weights of a flat buffer that belong to one tensor of a model: all or part of the tensor.
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

/// A row of TensorTable::numbers: a tensor's factors for an update's numbers, and whether it adapts.
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

/// Where the tensors of a flat buffer are, for updates that differ by tensor. The buffer is split into chunks, each of
/// one tensor.
struct TensorTable {
  static constexpr int64_t kChunk = 8192;  ///< most weights in a chunk

  int64_t tensors = 0;     ///< of the model
  int64_t elements = 0;    ///< of the buffer
  Tensor chunks = {};      ///< i64 [chunks, 3]: one TensorChunk per row
  Tensor of_tensors = {};  ///< i64 [tensors, 2]: a tensor's first chunk, and the one after its last
  Tensor numbers = {};     ///< f64 [tensors, 3]: one TensorNumbers per row

  int64_t count() const { return chunks.defined() ? chunks.shape()[0] : 0; }
};

/// Makes the table of consecutive runs, which must be in the order of their tensors. `tensors` is the number in the
/// model.
TensorTable make_tensor_table(Device& device, const std::vector<TensorRun>& runs, int64_t tensors);

/// Throws 70, naming the operator, unless `squares` has the shape of no_tensor_squares and each defined buffer has as
/// many elements as the table has weights. Buffers must also be aligned so that 4 elements can be read at once.
void require_flat(std::string_view op, const TensorTable& table, const Tensor& squares,
                  std::initializer_list<const Tensor*> buffers);

/// Returns empty sums, zero, for `tensors` tensors: f64 [tensors, 2, 16]. Each tensor has two exact sums of squares
/// (square_digits.h), of its parts of two buffers: mostly its weights and what they are updated by. The sums of a
/// tensor's parts, or of several tensors, may be added up like any numbers, in any order.
Tensor no_tensor_squares(Device& device, int64_t tensors);

}  // namespace dptrain::ops
