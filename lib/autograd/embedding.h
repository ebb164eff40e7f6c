#pragma once

#include "autograd/variable.h"

namespace dptrain::autograd {

/// The rows of a parameter, `table` [V, E], that ids (i32, of any shape) name: the ids' shape with E added. Row
/// `untrained` gets no gradient (-1: every row does).
Variable embedding(const Variable& table, const Tensor& ids, int32_t untrained = -1);

/// The rows of a value x, [..., E], that ids (i32 [R]) name among all of its rows: [R, E].
Variable rows_of(const Variable& x, const Tensor& ids);

}  // namespace dptrain::autograd
