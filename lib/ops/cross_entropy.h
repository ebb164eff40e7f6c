#pragma once

#include "tensor/tensor.h"

namespace dptrain::ops {

struct CrossEntropyOptions {
  /// Backward: weight of each sample's loss in the total whose gradient is computed.
  double scale = 1;
  /// Backward: i32 [1] or undefined. Divides the scale; read when the device runs the operator.
  Tensor count = {};
  /// Backward, on GPUs: f32 [1] or undefined. Multiplies the scale; read when the device runs the operator.
  Tensor factor = {};
  /// Share of the target that is spread evenly over all classes, at least 0 and below 1 (Szegedy et al., 2016;
  /// PyTorch's label_smoothing).
  double label_smoothing = 0;
};

/// Softmax and cross-entropy in one, with one loss per sample. With p = softmax(logits[n]) and s = label_smoothing:
///   loss[n] = -(1 - s) * log p[label[n]] - s * (mean over k of log p[k])
/// logits: [N, K]; labels: i32 [N], each 0 to K - 1, or negative for an ignored sample, whose loss is zero. Returns f64
/// [N]; the caller adds the losses up in sample order.
Tensor cross_entropy_forward(const Tensor& logits, const Tensor& labels, const CrossEntropyOptions& options = {});

/// Returns the gradient of `scale` * (sum of all losses) with respect to the logits: scale * (p - target), with the
/// smoothed one-hot label as the target, and zero for ignored samples.
Tensor cross_entropy_backward(const Tensor& logits, const Tensor& labels, const CrossEntropyOptions& options);

/// Returns i32 [N]: 1 for a sample whose largest logit (the first of equal ones) is at its label, else 0. Ignored
/// samples have 0.
Tensor correct_samples(const Tensor& logits, const Tensor& labels);

}  // namespace dptrain::ops
