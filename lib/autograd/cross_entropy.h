#pragma once

#include "autograd/variable.h"

namespace dptrain::autograd {

/// A loss a sample, f64 [N], of logits [N, K] and labels i32 [N]. `scale` is what each sample's loss counts in the
/// total that is minimized: one over the number of samples of the whole step, over all devices (a loss is divided
/// once). It ends a forward pass: Tape::backward starts from it with its own value as the (unread) gradient.
Variable cross_entropy(const Variable& logits, const Tensor& labels, double scale);

}  // namespace dptrain::autograd
