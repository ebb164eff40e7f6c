#pragma once

#include "autograd/variable.h"
#include "ops/cross_entropy.h"

namespace dptrain::autograd {

/// A loss a sample, f64 [N], of logits [N, K] and labels i32 [N]; zero where a label is negative. The options' scale is
/// what each sample's loss counts in the total that is minimized: one over the number of samples of the whole step,
/// over all devices (a loss is divided once). Their factor is the loss scale of half precision, undefined for none. It
/// ends a forward pass: Tape::backward starts from it with its own value as the (unread) gradient.
Variable cross_entropy(const Variable& logits, const Tensor& labels, const ops::CrossEntropyOptions& options);

}  // namespace dptrain::autograd
