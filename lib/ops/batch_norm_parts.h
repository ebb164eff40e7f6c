#pragma once

#include "ops/batch_norm.h"

namespace dptrain::ops {

// Batch normalization of a batch whose samples are spread over several devices, by the statistics of all of them. It is
// ops/batch_norm.h cut into steps between which the devices add up their sums. Every device runs:
//   forward    batch_norm_part, then adds up its `sums` over the devices; batch_norm_part_squares, then adds these up;
//              batch_norm_by_sums
//   backward   batch_norm_gradient_sums, then adds these up; batch_norm_backward_by_sums
// A device without samples takes part with sums of zero. All sums are f32, whatever the type of x.
//
// The mean comes first, and squares are taken about it: a part's sum of (x - mean of all)^2 is its sum of (x - own
// mean)^2 plus count * (own mean - mean of all)^2. Only positive numbers are ever added, so nothing cancels. E[x^2] -
// E[x]^2 would cancel if the mean is large.

/// Statistics of a device's own samples.
struct BatchNormPart {
  Tensor mean;     ///< [C]; zero without samples
  Tensor squares;  ///< [C], the sum of (x - mean)^2
  Tensor sums;     ///< [C + 1]: samples * mean, then the number of samples, exact in f32 below 2^24
};

BatchNormPart batch_norm_part(const Tensor& x);

/// Returns [C]: the sum over the part's values of (x - mean of all)^2. `part.sums` must already be summed over all
/// devices.
Tensor batch_norm_part_squares(const Tensor& x, const BatchNormPart& part);

/// Statistics of all devices' samples.
struct BatchNormSums {
  Tensor means;    ///< [C + 1], the sum of BatchNormPart::sums over the devices
  Tensor squares;  ///< [C], the sum of batch_norm_part_squares over the devices
};

/// Like batch_norm_training, by the statistics of all devices' samples. All devices get the same running statistics;
/// these don't change if no device has a sample.
BatchNormTraining batch_norm_by_sums(const BatchNormInputs& in, const BatchNormSums& sums,
                                     const BatchNormOptions& options);

/// Returns [2 C] over a device's own samples: the sums of g, the output's gradient after the ReLU's mask, then those of
/// g * (x - mean). Writes the part's gradients of gamma and beta to `sinks`; they are summed over the devices like any
/// parameter's.
Tensor batch_norm_gradient_sums(const BatchNormInputs& in, const BatchNormTraining& forward,
                                const Tensor& output_gradient, const BatchNormSinks& sinks,
                                const BatchNormOptions& options);

/// Inputs for the gradient of a part's input.
struct BatchNormPartGradient {
  Tensor output_gradient;
  Tensor means;  ///< BatchNormSums::means
  Tensor sums;   ///< [2 C], the sum of batch_norm_gradient_sums over the devices
};

BatchNormGradients batch_norm_backward_by_sums(const BatchNormInputs& in, const BatchNormTraining& forward,
                                               const BatchNormPartGradient& gradient, const BatchNormOptions& options);

}  // namespace dptrain::ops
