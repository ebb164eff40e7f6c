#include "autograd/linear.h"

#include "autograd/tape.h"
#include "ops/linear.h"
#include "ops/relu.h"

namespace dptrain::autograd {

Variable linear(const Variable& x, const Variable& weight, const Variable& bias, bool relu) {
  Tensor y = ops::linear_forward(x.value(), weight.value(), bias.defined() ? bias.value() : Tensor(), relu);
  return x.tape().record(y, {x, weight, bias}, [=](const Tensor& output_gradient) {
    const Tensor incoming = relu ? ops::relu_backward(y, output_gradient) : output_gradient;
    const GradientSink for_weight = weight.gradient_sink();
    const GradientSink for_bias = bias.defined() ? bias.gradient_sink() : GradientSink{};
    ops::linear_backward_weights(x.value(), incoming,
                                 {.weight = for_weight.target,
                                  .bias = for_bias.target,
                                  .accumulate_weight = for_weight.accumulate,
                                  .accumulate_bias = for_bias.accumulate});
    if (x.requires_gradient()) x.add_gradient(ops::linear_backward_data(weight.value(), incoming));
  });
}

}  // namespace dptrain::autograd
