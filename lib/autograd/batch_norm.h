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
  Variable residual;      ///< added before the ReLU, to the first channels if it has fewer than x; undefined: none
  bool training = false;  ///< whether to use the statistics of the batch (true) or the running ones (false)
  /// The devices over whose samples the statistics are taken in training; null: the samples of x alone. The object must
  /// outlive the backward pass.
  SumOverDevices* devices = nullptr;
};

/// ops::batch_norm with gradients, for images [N, C, H, W] or features [N, F]; features are treated as images of one
/// position. The gradients of gamma and beta cover the samples of x only, even if the statistics cover all devices.
Variable batch_norm(const Variable& x, const BatchNormArguments& arguments, const ops::BatchNormOptions& options);

}  // namespace dptrain::autograd
