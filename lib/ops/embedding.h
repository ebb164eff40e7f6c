#pragma once

#include "tensor/tensor.h"

namespace dptrain::ops {

/// Returns the table's row for each id. table: [V, E]; ids: i32 of any shape, each 0 to V - 1 (checked on a CPU worker,
/// but not on a GPU). The result has the ids' shape followed by E, in the table's type.
Tensor embedding_forward(const Tensor& table, const Tensor& ids);

struct EmbeddingBackwardOptions {
  bool accumulate = false;  ///< add the sums to the values in the gradient
  int32_t untrained = -1;   ///< an id whose row gets nothing; -1: none
};

/// Writes to each row of `table_gradient`, f32 [V, E], the sum of the output's gradients at the positions of its id, or
/// zero if the id doesn't occur. The ids alone decide the order of additions: there are no atomic additions, and the
/// host doesn't wait for the device.
void embedding_backward(const Tensor& ids, const Tensor& output_gradient, const Tensor& table_gradient,
                        const EmbeddingBackwardOptions& options);

}  // namespace dptrain::ops
