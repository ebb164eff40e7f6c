#pragma once

#include "ops/activation_kind.h"
#include "tensor/tensor.h"

namespace dptrain::ops {

inline constexpr Activation kRelu = {ActivationKind::relu}, kGelu = {ActivationKind::gelu},
                            kTanh = {ActivationKind::tanh}, kSigmoid = {ActivationKind::sigmoid},
                            kSilu = {ActivationKind::silu};
constexpr Activation leaky_relu(float slope) { return {ActivationKind::leaky_relu, slope}; }

/// Applies the activation to each value, in any layout. f32 results have a relative error of at most 1e-6 wherever
/// neither the result nor exp(-|x|), or for GELU exp(-x^2 / 2), is denormal. GELU on a GPU has a relative error of 2e-5
/// at x = -12.
Tensor activation_forward(const Activation& activation, const Tensor& x);

/// Whether the slope follows from the output, so that backward doesn't need the input.
bool slope_follows_from_output(ActivationKind kind);

/// Returns the output's gradient times the activation's slope. `kept` is forward's output if slope_follows_from_output,
/// else forward's input. Both tensors have the same shape; the result has the layout of `kept`.
Tensor activation_backward(const Activation& activation, const Tensor& kept, const Tensor& output_gradient);

}  // namespace dptrain::ops
