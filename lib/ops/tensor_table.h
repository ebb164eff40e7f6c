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

/// Where the tensors of a flat buffer lie, for updates that differ by tensor: by chunks, each of one tensor.
struct TensorTable {
  static constexpr int64_t kChunk = 8192;  ///< weights at most

  int64_t tensors = 0;     ///< of the model
  int64_t elements = 0;    ///< of the buffer
  Tensor chunks = {};      ///< i64 [chunks, 3]: where each begins, how many weights it has, their tensor
  Tensor of_tensors = {};  ///< i64 [tensors, 2]: which chunks are a tensor's, from the first to before the second
  Tensor numbers = {};  ///< f64 [tensors, 3]: factors of the learning rate and of the weight decay; 1 where it adapts

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
