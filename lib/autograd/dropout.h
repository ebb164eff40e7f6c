#pragma once

#include "autograd/variable.h"
#include "ops/dropout.h"

namespace dptrain::autograd {

/// ops::dropout with gradients; for training only. x: [N, ...] in any layout; `key` has N sample ids.
Variable dropout(const Variable& x, float probability, const ops::DropoutKey& key);

}  // namespace dptrain::autograd
