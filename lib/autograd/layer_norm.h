#pragma once

#include "autograd/variable.h"
#include "ops/dropout.h"

namespace dptrain::autograd {

struct LayerNormArguments {
  Variable gamma;
  Variable beta;
  Variable residual;  ///< added before the normalization; undefined: none
  float epsilon = 1e-12f;
  float dropout = 0;         ///< the probability of dropping an element of x, before the residual is added
  ops::DropoutKey key = {};  ///< the key of that dropout
};

/// ops::layer_norm with gradients, over the last dimension of x (and the residual): [..., E].
Variable layer_norm(const Variable& x, const LayerNormArguments& arguments);

}  // namespace dptrain::autograd
