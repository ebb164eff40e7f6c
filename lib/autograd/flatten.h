#pragma once

#include "autograd/variable.h"

namespace dptrain::autograd {

/// [N, C, H, W] in any layout to a plain [N, C*H*W].
Variable flatten(const Variable& x);

/// All but the last dimension as one: [..., E] -> [R, E]; plain.
Variable flatten_rows(const Variable& x);

}  // namespace dptrain::autograd
