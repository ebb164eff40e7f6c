#pragma once

#include "tensor/tensor.h"

namespace dptrain::ops {

// f32 values on their way through f16, multiplied by a power of two on the way in and divided by it on the way out, so
// that neither large values overflow nor small ones vanish: what is 2^39 times smaller than the bound becomes zero.

/// The largest magnitude among values (f32), f32 [1]; not finite where one of them isn't.
Tensor largest_magnitude(const Tensor& values);

/// to (f16) = values (f32) times the power of two that brings `bound` (f32 [1]) to 2^14 or more, and under 2^15; 1
/// where the bound isn't finite. Rounded to nearest, ties to even; infinities and NaNs stay what they are.
void scale_to_f16(const Tensor& values, const Tensor& bound, const Tensor& to);

/// The way back, by the same bound. Exact.
void scale_from_f16(const Tensor& halves, const Tensor& bound, const Tensor& to);

}  // namespace dptrain::ops
