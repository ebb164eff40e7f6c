#pragma once

#include "ops/batch_norm.h"

namespace dptrain::ops::cuda {

// x, residual, y and their gradients are f32, bf16 or f16. They are in nhwc, or are converted to it. Parameters,
// statistics and their gradients are f32.

BatchNormTraining batch_norm_training(const BatchNormInputs& in, const BatchNormOptions& options);
BatchNormTraining batch_norm_by_running(const BatchNormInputs& in, const BatchNormOptions& options);
Tensor batch_norm_again(const BatchNormInputs& in, const BatchNormTraining& forward, const BatchNormOptions& options);
BatchNormGradients batch_norm_backward(const BatchNormInputs& in, const BatchNormTraining& forward,
                                       const SummedGradient& output_gradient, const BatchNormSinks& sinks,
                                       const BatchNormOptions& options);

}  // namespace dptrain::ops::cuda
