#pragma once

#include "tensor/tensor.h"

namespace dptrain::ops {

/// The table's row of every id. table: [V, E]; ids: i32 of any shape, each 0 to V - 1, which a CPU worker checks and a
/// GPU takes on trust. Returns the ids' shape with E added, in the table's type.
Tensor embedding_forward(const Tensor& table, const Tensor& ids);

struct EmbeddingBackwardOptions {
  bool accumulate = false;  ///< the sums are added to what stands in the gradient
  int32_t untrained = -1;   ///< an id whose row gets nothing; -1: none
};

/// Writes to each row of `table_gradient`, f32 [V, E], the sum of the output's gradients at the positions of its id, in
/// an order that the ids alone decide; zero where an id doesn't occur. Nothing is added atomically, and nothing waits
/// for the device.
void embedding_backward(const Tensor& ids, const Tensor& output_gradient, const Tensor& table_gradient,
                        const EmbeddingBackwardOptions& options);

}  // namespace dptrain::ops
