#pragma once

#include "ops/cross_entropy.h"

namespace dptrain::ops::cuda {

// The logits and their gradient are f32, bf16 or f16.

Tensor cross_entropy_forward(const Tensor& logits, const Tensor& labels, const CrossEntropyOptions& options);
Tensor cross_entropy_backward(const Tensor& logits, const Tensor& labels, const CrossEntropyOptions& options);
Tensor correct_samples(const Tensor& logits, const Tensor& labels);

}  // namespace dptrain::ops::cuda
