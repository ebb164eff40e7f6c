#pragma once

#include "autograd/variable.h"
#include "ops/activation.h"

namespace dptrain::autograd {

/// These functions take x in any shape and layout.
Variable activation(const Variable& x, const ops::Activation& function);
Variable relu(const Variable& x);
Variable gelu(const Variable& x);
Variable tanh(const Variable& x);
/// a + b, for equal shapes. b is converted to the layout of a.
Variable add(const Variable& a, const Variable& b);
/// y with x added to its first channels, in the layout of y. y: [N, C + P, H, W]; x: [N, C, H, W].
Variable add_padded(const Variable& y, const Variable& x);

}  // namespace dptrain::autograd
