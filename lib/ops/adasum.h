#pragma once

#include "ops/tensor_table.h"

namespace dptrain::ops {

// Adasum (Maleki et al., "Scaling Distributed Training with Adaptive Summation", 2021), which adds what two replicas
// have learned, a and b, tensor by tensor:
//   (1 - ab / (2 aa)) a + (1 - ab / (2 bb)) b
// If a and b are orthogonal, it is their sum; if they are equal, it is their mean. A vector of zeros adds nothing.
//
// The vectors may be divided over devices. Every device measures its parts in two passes, whose squares are summed over
// all devices; see no_tensor_squares(). The first pass is tensor_squares(first, second). All buffers are flat, f32 and
// of equal length.

/// The second pass: adds the squares of scaled sums and differences of `first` and `second` to `squares`. From these
/// follow the products ab; see adasum_factors.h. norms: the result of the first pass.
void adasum_squares(const Tensor& first, const Tensor& second, const TensorTable& table, const Tensor& norms,
                    const Tensor& squares);

/// Replaces `first` by the result. norms, squares: the results of the two passes. `second` is changed, too: CPU workers
/// multiply it by its factors.
void adasum(const Tensor& first, const Tensor& second, const TensorTable& table, const Tensor& norms,
            const Tensor& squares);

}  // namespace dptrain::ops
