#pragma once

#include "tensor/tensor.h"

namespace dptrain::ops::cpu {

/// y = the table's row for each id.
void embedding_forward(const Tensor& table, const Tensor& ids, const Tensor& y);
/// Adds each row of `incoming` to the row of its id in `table`, f32.
void add_rows(const Tensor& ids, const Tensor& incoming, const Tensor& table, int32_t untrained);

}  // namespace dptrain::ops::cpu
