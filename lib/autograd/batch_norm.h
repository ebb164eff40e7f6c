#pragma once

#include "autograd/variable.h"
#include "ops/batch_norm.h"

namespace dptrain::autograd {

struct BatchNormArguments {
  Variable gamma;
  Variable beta;
  Tensor running_mean;
  Tensor running_variance;
  Variable residual;      ///< added before the ReLU; undefined: none
  bool training = false;  ///< the batch's statistics, or the running ones
};

/// ops::batch_norm with gradients, by the batch's statistics or the running ones.
Variable batch_norm(const Variable& x, const BatchNormArguments& arguments, const ops::BatchNormOptions& options);

}  // namespace dptrain::autograd
