#pragma once

#include "tensor/tensor.h"

namespace dptrain::ops {

struct CrossEntropyOptions {
  /// Backward: what each loss counts in the total whose gradient it is.
  double scale = 1;
  /// Backward: i32 [1] or undefined; the scale is divided by it, as it is when the work is done.
  Tensor count = {};
  /// Backward: f32 [1] or undefined; multiplies the scale too, and is read when the work is done. Of GPUs.
  Tensor factor = {};
  /// 0 to below 1: so much of the target is spread evenly over all classes (Szegedy et al., 2016; PyTorch's
  /// label_smoothing).
  double label_smoothing = 0;
};

/// Softmax and cross-entropy in one, a loss a sample, with p = softmax(logits[n]) and s = label_smoothing:
///   loss[n] = -(1 - s) * log p[label[n]] - s * (mean over k of log p[k])
/// logits: [N, K]; labels: i32 [N], each 0 to K - 1, or negative: the sample is ignored, its loss is zero. Returns f64
/// [N]: who reports a loss adds them up in sample order.
Tensor cross_entropy_forward(const Tensor& logits, const Tensor& labels, const CrossEntropyOptions& options = {});

/// The gradient of `scale` * (sum of all losses) with respect to the logits: scale * (p - target) where the target is
/// the one-hot label, smoothed; zero where a sample is ignored.
Tensor cross_entropy_backward(const Tensor& logits, const Tensor& labels, const CrossEntropyOptions& options);

/// Which samples have their largest logit (the first of equals) at their label: i32 [N], 1 or 0. Ignored ones haven't.
Tensor correct_samples(const Tensor& logits, const Tensor& labels);

}  // namespace dptrain::ops
