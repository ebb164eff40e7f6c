#pragma once

#include "autograd/variable.h"

namespace dptrain::autograd {

/// [N, C, H, W] in any layout to a plain [N, C*H*W].
Variable flatten(const Variable& x);

}  // namespace dptrain::autograd
