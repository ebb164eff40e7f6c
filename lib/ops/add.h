#pragma once

#include "tensor/tensor.h"

namespace dptrain::ops {

/// a + b, of equal shape and layout.
Tensor add(const Tensor& a, const Tensor& b);

/// to += from, of equal shape and layout.
void add_into(const Tensor& to, const Tensor& from);

}  // namespace dptrain::ops
