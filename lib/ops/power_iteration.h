#pragma once

#include <span>

#include "tensor/tensor.h"

namespace dptrain::ops {

// The steps of PowerSGD's power iteration other than products of matrices (Vogels et al., "PowerSGD: practical low-rank
// gradient compression for distributed optimization", 2019, algorithm 1). All matrices are f32 and plain. A call takes
// any number of them, of any sizes, because each is small.

/// Makes the columns of each matrix [N, R] orthonormal, in place: modified Gram-Schmidt in double, from the first
/// column to the last. A column becomes zero if all but 1e-6 of it is a combination of the columns before it. A column
/// that isn't finite becomes NaN.
void orthogonalize_columns(std::span<const Tensor> matrices);

/// Copies found [R, M] to directions [R, M] for each pair. Rows of `found` that are zero or not finite are skipped:
/// nothing could be found from them, so these directions stay as they are.
void renew_directions(std::span<const Tensor> directions, std::span<const Tensor> found);

}  // namespace dptrain::ops
