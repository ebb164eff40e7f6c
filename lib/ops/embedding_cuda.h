#pragma once

#include "tensor/tensor.h"

namespace dptrain::ops::cuda {

/// Row i of y = row ids[i] of `table`.
void embedding_forward(const Tensor& table, const Tensor& ids, const Tensor& y);
/// Adds row i of `incoming` to row ids[i] of `table`, f32, except where the id is `untrained`.
void add_rows(const Tensor& ids, const Tensor& incoming, const Tensor& table, int32_t untrained);

}  // namespace dptrain::ops::cuda
