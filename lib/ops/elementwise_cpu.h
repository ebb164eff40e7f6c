#pragma once

#include "tensor/tensor.h"

namespace dptrain::ops::cpu {

// Over storage elements, shared out over the device's threads: elementwise_kernels.h says what each computes.

void add(const Tensor& a, const Tensor& b, const Tensor& out);
void add_into(const Tensor& to, const Tensor& from);
void relu_forward(const Tensor& x, const Tensor& y);
void relu_backward(const Tensor& y, const Tensor& incoming, const Tensor& gradient);
void gelu_forward(const Tensor& x, const Tensor& y);
void gelu_backward(const Tensor& x, const Tensor& incoming, const Tensor& gradient);
void tanh_forward(const Tensor& x, const Tensor& y);
void tanh_backward(const Tensor& y, const Tensor& incoming, const Tensor& gradient);
void masked_scale(const Tensor& x, const Tensor& mask, float scale, const Tensor& out);
void approach(const Tensor& to, const Tensor& from, float share);

}  // namespace dptrain::ops::cpu
