#pragma once

#include "tensor/tensor.h"

namespace dptrain::ops {

// Exact sums of squares. They are the same however values are split over threads, devices and processes, and in
// whatever order they are added. A sum is an f64 tensor of whole numbers, which communicators may add like any other;
// see square_digits.h.

/// Returns an empty sum, zero.
Tensor no_squares(Device& device);

/// Adds the squares of all values (f32, contiguous storage) to a sum on the same device.
void add_squares(const Tensor& values, const Tensor& sum);

/// Returns the sum of the squares of all values.
Tensor square_sum(const Tensor& values);

}  // namespace dptrain::ops
