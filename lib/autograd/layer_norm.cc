#include "autograd/layer_norm.h"

#include <utility>

#include "autograd/tape.h"
#include "ops/layer_norm.h"

namespace dptrain::autograd {

Variable layer_norm(const Variable& x, const LayerNormArguments& a) {
  ops::LayerNormForward forward =
      ops::layer_norm_forward({.x = x.value(),
                               .residual = a.residual.defined() ? a.residual.value() : Tensor(),
                               .gamma = a.gamma.value(),
                               .beta = a.beta.value(),
                               .dropout = a.dropout,
                               .key = a.key},
                              a.epsilon);
  const Tensor y = forward.y;
  forward.y = Tensor();  // backward doesn't read it
  const auto backward = [forward, gamma = a.gamma, beta = a.beta, residual = a.residual.without_value(),
                         x = x.without_value()](ops::SummedGradient incoming) {
    const GradientSink for_gamma = gamma.gradient_sink(), for_beta = beta.gradient_sink();
    ops::LayerNormInputGradients gradients = ops::layer_norm_backward(forward, gamma.value(), std::move(incoming),
                                                                      {.gamma = for_gamma.target,
                                                                       .beta = for_beta.target,
                                                                       .accumulate_gamma = for_gamma.accumulate,
                                                                       .accumulate_beta = for_beta.accumulate});
    if (residual.defined()) residual.add_gradient(std::move(gradients.residual));
    x.add_gradient(std::move(gradients.x));
  };
  return x.tape().record_summing(y, {x, a.gamma, a.beta, a.residual}, backward);
}

}  // namespace dptrain::autograd
