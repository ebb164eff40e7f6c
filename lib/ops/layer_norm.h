#pragma once

#include "ops/dropout.h"
#include "ops/summed_gradient.h"

namespace dptrain::ops {

/// Inputs of layer normalization over the last dimension (Ba, Kiros and Hinton, 2016), optionally of a sum with a
/// residual:
///   s = dropout(x) + residual;  y = gamma * (s - mean(s)) / sqrt(variance(s) + epsilon) + beta
/// x, residual, y: [..., E], plain; gamma, beta: f32 [E]. All of this is one pass.
struct LayerNormInputs {
  Tensor x;
  Tensor residual = {};  ///< undefined: none
  Tensor gamma;
  Tensor beta;
  float dropout = 0;    ///< the probability of dropping an element of x; needs a residual
  DropoutKey key = {};  ///< the random draws equal those of dropout on x alone
};

/// The output, and what backward reads. A row is E contiguous elements.
struct LayerNormForward {
  Tensor y;
  Tensor sum;                ///< dropout(x) + residual, or x itself
  Tensor mean;               ///< f32 [rows]
  Tensor inverse_deviation;  ///< f32 [rows], 1 / sqrt(variance + epsilon)
  Tensor mask = {};          ///< dropout's mask, see DropoutResult; undefined without dropout
  float dropout = 0;
};

LayerNormForward layer_norm_forward(const LayerNormInputs& in, float epsilon);

/// Where the gradients of gamma and beta are written, f32 [E]. With `accumulate_*` they are added to the values there.
struct LayerNormParameterGradients {
  Tensor gamma;
  Tensor beta;
  bool accumulate_gamma = false;
  bool accumulate_beta = false;
};

/// The gradients of the inputs. Without dropout both are the same tensor, the gradient of the sum.
struct LayerNormInputGradients {
  Tensor x;
  Tensor residual;
};

/// Computes all gradients. Sums over rows are folded in a fixed order, whatever the number of threads.
LayerNormInputGradients layer_norm_backward(const LayerNormForward& forward, const Tensor& gamma,
                                            SummedGradient output_gradient,
                                            const LayerNormParameterGradients& gradients);

}  // namespace dptrain::ops
