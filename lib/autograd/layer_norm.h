#pragma once

#include "autograd/variable.h"

namespace dptrain::autograd {

struct LayerNormArguments {
  Variable gamma;
  Variable beta;
  Variable residual;  ///< added before the normalization; undefined: none
  float epsilon = 1e-12f;
};

/// ops::layer_norm with gradients, over the last dimension of x (and the residual): [..., E].
Variable layer_norm(const Variable& x, const LayerNormArguments& arguments);

}  // namespace dptrain::autograd
