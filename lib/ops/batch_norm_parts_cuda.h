#pragma once

#include "ops/batch_norm_parts.h"

namespace dptrain::ops::cuda {

// Element types are those of batch_norm_cuda.h. batch_norm_part and batch_norm_gradient_sums need an x that has
// samples.

BatchNormPart batch_norm_part(const Tensor& x);
Tensor batch_norm_part_squares(const Tensor& x, const BatchNormPart& part);
BatchNormTraining batch_norm_by_sums(const BatchNormInputs& in, const BatchNormSums& sums,
                                     const BatchNormOptions& options);
Tensor batch_norm_gradient_sums(const BatchNormInputs& in, const BatchNormTraining& forward,
                                const Tensor& output_gradient, const BatchNormSinks& sinks,
                                const BatchNormOptions& options);
BatchNormGradients batch_norm_backward_by_sums(const BatchNormInputs& in, const BatchNormTraining& forward,
                                               const BatchNormPartGradient& gradient, const BatchNormOptions& options);

}  // namespace dptrain::ops::cuda
