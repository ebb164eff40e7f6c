#pragma once

#include "tensor/tensor.h"

namespace dptrain::ops {

// f32 values sent as f16: multiplied by a power of two on the way in and divided by it on the way out, so that large
// values don't overflow and small ones don't vanish. A value 2^39 times smaller than the bound becomes zero.

/// Returns the largest magnitude of values (f32) as f32 [1]; not finite if one of them isn't.
Tensor largest_magnitude(const Tensor& values);

/// to (f16) = values (f32) times a power of two, rounded to nearest, ties to even. The power brings `bound` (f32 [1])
/// to at least 2^14 and below 2^15; it is 1 if the bound isn't finite. Infinities and NaNs stay unchanged.
void scale_to_f16(const Tensor& values, const Tensor& bound, const Tensor& to);

/// Reverses scale_to_f16 with the same bound. Exact.
void scale_from_f16(const Tensor& halves, const Tensor& bound, const Tensor& to);

}  // namespace dptrain::ops
