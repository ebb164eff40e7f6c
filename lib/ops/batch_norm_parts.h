#pragma once

#include "ops/batch_norm.h"

namespace dptrain::ops {

// Batch normalization of a batch whose samples lie on several devices, by the statistics of all of them: what
// ops/batch_norm.h does in one pass, cut where the devices add up what each knows of its part. Every device does
//   forward    batch_norm_part, its `sums` added up over the devices; batch_norm_part_squares, added up as well;
//              batch_norm_by_sums
//   backward   batch_norm_gradient_sums, its `sums` added up; batch_norm_backward_by_sums
// and one without samples takes part with sums of zero. All sums are f32, whatever x is.
//
// The mean comes first and the squares are taken about it: a part's sum of (x - mean of all)^2 is its sum of
// (x - own mean)^2 plus count * (own mean - mean of all)^2. Only positive numbers are ever added, so that nothing
// cancels, as it does in E[x^2] - E[x]^2 where the mean is large.

/// What a device knows of its own samples.
struct BatchNormPart {
  Tensor mean;     ///< [C]; zero without samples
  Tensor squares;  ///< [C], the sum of (x - mean)^2
  Tensor sums;     ///< [C + 1]: samples * mean, then samples, which f32 holds exactly below 2^24
};

BatchNormPart batch_norm_part(const Tensor& x);

/// [C]: the sum over the part's values of (x - mean of all)^2. `part.sums` are those of all devices by now.
Tensor batch_norm_part_squares(const Tensor& x, const BatchNormPart& part);

/// What all devices together know.
struct BatchNormSums {
  Tensor means;    ///< [C + 1], the sum of BatchNormPart::sums
  Tensor squares;  ///< [C], the sum of what batch_norm_part_squares gives
};

/// As batch_norm_training, by the statistics of all devices' samples: the running statistics end in the same values on
/// all of them, and stay what they were where no device has a sample.
BatchNormTraining batch_norm_by_sums(const BatchNormInputs& in, const BatchNormSums& sums,
                                     const BatchNormOptions& options);

/// [2 C], over a device's own samples: the sums of the gradient g of what was normalized, then those of g * (x - mean).
/// Into `sinks` go the part's gradients of gamma and beta: all devices' are added up as any parameter's are.
Tensor batch_norm_gradient_sums(const BatchNormInputs& in, const BatchNormTraining& forward,
                                const Tensor& output_gradient, const BatchNormSinks& sinks,
                                const BatchNormOptions& options);

/// What the gradient of a part's input follows from.
struct BatchNormPartGradient {
  Tensor output_gradient;
  Tensor means;  ///< BatchNormSums::means
  Tensor sums;   ///< [2 C], the sum of what batch_norm_gradient_sums gives
};

BatchNormGradients batch_norm_backward_by_sums(const BatchNormInputs& in, const BatchNormTraining& forward,
                                               const BatchNormPartGradient& gradient, const BatchNormOptions& options);

}  // namespace dptrain::ops
