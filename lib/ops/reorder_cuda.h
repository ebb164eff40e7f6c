#pragma once

#include "tensor/tensor.h"

namespace dptrain::ops::cuda {

/// Between plain and nhwc, and between f32, bf16 and f16: rounded to nearest, ties to even. Reads and writes each
/// element once.
void reorder_into(const Tensor& from, const Tensor& to);

}  // namespace dptrain::ops::cuda
