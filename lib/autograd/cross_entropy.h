#pragma once

#include "autograd/variable.h"
#include "ops/cross_entropy.h"

namespace dptrain::autograd {

/// The loss of each sample, f64 [N], from logits [N, K] and labels i32 [N]; the loss is zero where the label is
/// negative. `options.scale` is the weight of each sample's loss in the total that is minimized: one over the number of
/// samples of the whole step, over all devices, so that a loss is divided only once. `options.factor` is the loss scale
/// of half precision; undefined: none. The result ends a forward pass: Tape::backward starts from it and takes its
/// value as the gradient, which isn't read.
Variable cross_entropy(const Variable& logits, const Tensor& labels, const ops::CrossEntropyOptions& options);

}  // namespace dptrain::autograd
