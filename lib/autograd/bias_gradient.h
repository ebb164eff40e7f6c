#pragma once

#include "autograd/variable.h"

namespace dptrain::autograd {

/// What the gradient of the bias of a convolution or a linear layer takes.
enum class BiasGradient {
  summed,  ///< a pass over the output's gradient
  zero,    ///< nothing: whoever reads the output subtracts its mean over samples and positions
};

/// Where the gradient of `bias`, which may be undefined, is summed to: nowhere where it is zero, which is written here,
/// or where it is frozen.
inline GradientSink bias_sink(const Variable& bias, BiasGradient gradient) {
  if (!bias.defined() || !bias.requires_gradient()) return {};
  const GradientSink sink = bias.gradient_sink();
  if (gradient == BiasGradient::summed) return sink;
  if (!sink.accumulate) sink.target.fill_zero();
  return {};
}

}  // namespace dptrain::autograd
