#pragma once

#include "ops/batch_norm.h"

namespace dptrain::ops::cpu {

BatchNormTraining batch_norm_training(const BatchNormInputs& in, const BatchNormOptions& options);
BatchNormTraining batch_norm_by_running(const BatchNormInputs& in, const BatchNormOptions& options);
Tensor batch_norm_again(const BatchNormInputs& in, const BatchNormTraining& forward, const BatchNormOptions& options);
BatchNormGradients batch_norm_backward(const BatchNormInputs& in, const BatchNormTraining& forward,
                                       const Tensor& output_gradient, const BatchNormSinks& sinks,
                                       const BatchNormOptions& options);

}  // namespace dptrain::ops::cpu
