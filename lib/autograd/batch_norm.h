#pragma once

#include "autograd/sum_over_devices.h"
#include "autograd/variable.h"
#include "ops/batch_norm.h"

namespace dptrain::autograd {

struct BatchNormArguments {
  Variable gamma;
  Variable beta;
  Tensor running_mean;
  Tensor running_variance;
  Variable residual;      ///< added before the ReLU, to the first channels if it has fewer; undefined: none
  bool training = false;  ///< the batch's statistics, or the running ones
  /// Over which the batch's statistics are taken in training; null: those of x. Kept until backward has run.
  SumOverDevices* devices = nullptr;
};

/// ops::batch_norm with gradients, by the batch's statistics or the running ones, of images or of features: [N, F] are
/// images of one position. The gradients of gamma and beta are
/// those of x's samples, whatever the statistics are of.
Variable batch_norm(const Variable& x, const BatchNormArguments& arguments, const ops::BatchNormOptions& options);

}  // namespace dptrain::autograd
