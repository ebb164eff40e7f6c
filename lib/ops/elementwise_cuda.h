#pragma once

#include "ops/activation_kind.h"
#include "tensor/tensor.h"

namespace dptrain::ops::cuda {

// These work on storage elements of f32, bf16 or f16. All tensors of a call have one type, shape and layout.

void add(const Tensor& a, const Tensor& b, const Tensor& out);
void add_into(const Tensor& to, const Tensor& from);
void activation_forward(const Activation& activation, const Tensor& x, const Tensor& y);
void activation_backward(const Activation& activation, const Tensor& kept, const Tensor& incoming,
                         const Tensor& gradient);
/// out = mask != 0 ? x * scale : 0; mask: u8
void masked_scale(const Tensor& x, const Tensor& mask, float scale, const Tensor& out);

/// to += share * (from - to); f32
void approach(const Tensor& to, const Tensor& from, float share);

}  // namespace dptrain::ops::cuda
