#pragma once

#include "ops/activation_kind.h"
#include "tensor/tensor.h"

namespace dptrain::ops::cpu {

// Element-wise operators over storage elements, divided among the device's threads. elementwise_kernels.h says what
// each computes.

void add(const Tensor& a, const Tensor& b, const Tensor& out);
void add_into(const Tensor& to, const Tensor& from);
void activation_forward(const Activation& activation, const Tensor& x, const Tensor& y);
void activation_backward(const Activation& activation, const Tensor& kept, const Tensor& incoming,
                         const Tensor& gradient);
void masked_scale(const Tensor& x, const Tensor& mask, float scale, const Tensor& out);
void approach(const Tensor& to, const Tensor& from, float share);

}  // namespace dptrain::ops::cpu
