#pragma once

#include "tensor/tensor.h"

namespace dptrain::ops::cuda {

/// Copies between plain and nhwc, and between f32, bf16 and f16, rounding to nearest, ties to even. It reads and writes
/// each element once.
void reorder_into(const Tensor& from, const Tensor& to);

}  // namespace dptrain::ops::cuda
