#pragma once

#include "autograd/variable.h"

namespace dptrain::autograd {

/// Looks up rows of the parameter `table` [V, E] by `ids`, i32 of any shape; returns the shape of `ids` with E
/// appended. Row `untrained` gets no gradient (-1: every row gets one).
Variable embedding(const Variable& table, const Tensor& ids, int32_t untrained = -1);

/// Picks rows of a value x, [..., E], by `ids` (i32 [R]), which number the rows of x flattened to [rows, E]. Returns
/// [R, E].
Variable rows_of(const Variable& x, const Tensor& ids);

}  // namespace dptrain::autograd
