#pragma once

#include "tensor/tensor.h"

namespace dptrain::ops {

/// Returns a + b; both have the same shape and layout.
Tensor add(const Tensor& a, const Tensor& b);

/// Computes to += from; both have the same shape and layout.
void add_into(const Tensor& to, const Tensor& from);

}  // namespace dptrain::ops
