#pragma once

#include <span>

#include "tensor/tensor.h"

namespace dptrain::ops {

// What PowerSGD's power iteration needs beside products of matrices (Vogels et al., "PowerSGD: practical low-rank
// gradient compression for distributed optimization", 2019, algorithm 1). All f32 and plain, of any number of matrices
// of any sizes at once, as each is small.

/// Makes the columns of each matrix [N, R] orthonormal, in place: modified Gram-Schmidt, from the first to the last, in
/// double. A column that is all but 1e-6 of it a combination of those before it becomes zero; one that isn't finite
/// becomes NaN.
void orthogonalize_columns(std::span<const Tensor> matrices);

/// directions [R, M] = found [R, M], of each pair, but for rows of `found` that are zero or not finite: those stay as
/// they are, as nothing could be found from them.
void renew_directions(std::span<const Tensor> directions, std::span<const Tensor> found);

}  // namespace dptrain::ops
