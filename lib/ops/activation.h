#pragma once

#include "ops/activation_kind.h"
#include "tensor/tensor.h"

namespace dptrain::ops {

inline constexpr Activation kRelu = {ActivationKind::relu}, kGelu = {ActivationKind::gelu},
                            kTanh = {ActivationKind::tanh}, kSigmoid = {ActivationKind::sigmoid},
                            kSilu = {ActivationKind::silu};
constexpr Activation leaky_relu(float slope) { return {ActivationKind::leaky_relu, slope}; }

/// Of each value, in any layout. f32 is right to 1e-6 of its own size wherever neither it nor exp(-|x|), or for GELU
/// exp(-x^2 / 2), is denormal; GELU on a GPU to 2e-5 at x = -12.
Tensor activation_forward(const Activation& activation, const Tensor& x);

/// Whether the slope follows from the output, so that backward doesn't need the input.
bool slope_follows_from_output(ActivationKind kind);

/// The output's gradient times the slope, from what forward has put out or else from what it was given (`kept`; see
/// slope_follows_from_output). Both in one shape; returned in the layout of `kept`.
Tensor activation_backward(const Activation& activation, const Tensor& kept, const Tensor& output_gradient);

}  // namespace dptrain::ops
