#pragma once

#include "autograd/variable.h"

namespace dptrain::autograd {

/// How the gradient of the bias of a convolution or a linear layer is computed.
enum class BiasGradient {
  summed,  ///< summed from the output's gradient, in one pass over it
  zero,    ///< not computed: the reader of the output subtracts its mean over samples and positions, so the gradient is
           ///< zero
};

/// Returns where to sum the gradient of `bias`, which may be undefined. The sink is empty if the bias is undefined or
/// frozen, and if the gradient is zero; this function then writes the zeros itself.
inline GradientSink bias_sink(const Variable& bias, BiasGradient gradient) {
  if (!bias.defined() || !bias.requires_gradient()) return {};
  const GradientSink sink = bias.gradient_sink();
  if (gradient == BiasGradient::summed) return sink;
  if (!sink.accumulate) sink.target.fill_zero();
  return {};
}

}  // namespace dptrain::autograd
