#pragma once

#include "autograd/variable.h"
#include "ops/dropout.h"

namespace dptrain::autograd {

/// ops::dropout with gradients; for training only.
Variable dropout(const Variable& x, float probability, const ops::DropoutKey& key);

}  // namespace dptrain::autograd
