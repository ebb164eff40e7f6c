#pragma once

#include "tensor/tensor.h"

namespace dptrain::ops {

// Sums of squares that are exact, so that they are the same however values are cut and in whatever order they are
// added: over the threads, the devices and the processes. A sum is an f64 tensor of whole numbers, which communicators
// may add like any other; see square_digits.h.

/// A sum of nothing yet.
Tensor no_squares(Device& device);

/// Adds the squares of all values (f32, the storage in one piece) to a sum on the same device.
void add_squares(const Tensor& values, const Tensor& sum);

/// The sum of the squares of all values.
Tensor square_sum(const Tensor& values);

}  // namespace dptrain::ops
