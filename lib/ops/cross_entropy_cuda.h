#pragma once

#include "tensor/tensor.h"

namespace dptrain::ops::cuda {

// logits and their gradient: f32, bf16 or f16.

Tensor cross_entropy_forward(const Tensor& logits, const Tensor& labels);
Tensor cross_entropy_backward(const Tensor& logits, const Tensor& labels, double scale, const Tensor& factor);
Tensor correct_samples(const Tensor& logits, const Tensor& labels);

}  // namespace dptrain::ops::cuda
