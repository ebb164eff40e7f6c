#pragma once

#include "tensor/tensor.h"

namespace dptrain::ops {

/// loss[n] = log(sum over k of exp(logits[n, k])) - logits[n, label[n]]: softmax and cross-entropy in one, a loss a
/// sample. logits: [N, K]; labels: i32 [N], each 0 to K - 1. Returns f64 [N]: who reports a loss adds them up in sample
/// order.
Tensor cross_entropy_forward(const Tensor& logits, const Tensor& labels);

/// The gradient of `scale` * (sum of all losses) with respect to the logits: scale * (softmax - one-hot). `factor`, f32
/// [1] or undefined, multiplies the scale too: of a GPU, read when the work is done.
Tensor cross_entropy_backward(const Tensor& logits, const Tensor& labels, double scale, const Tensor& factor = {});

/// Which samples have their largest logit (the first of equals) at their label: i32 [N], 1 or 0.
Tensor correct_samples(const Tensor& logits, const Tensor& labels);

}  // namespace dptrain::ops
