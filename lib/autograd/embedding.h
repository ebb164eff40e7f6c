#pragma once

#include "autograd/variable.h"

namespace dptrain::autograd {

/// The rows of `table`, [V, E], that ids (i32, of any shape) name: the ids' shape with E added.
Variable embedding(const Variable& table, const Tensor& ids);

}  // namespace dptrain::autograd
