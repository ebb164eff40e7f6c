#pragma once

#include "tensor/tensor.h"

namespace dptrain::ops::cpu {

Tensor cross_entropy_forward(const Tensor& logits, const Tensor& labels);
Tensor cross_entropy_backward(const Tensor& logits, const Tensor& labels, double scale);
Tensor correct_samples(const Tensor& logits, const Tensor& labels);

}  // namespace dptrain::ops::cpu
