#include "autograd/linear.h"

#include <vector>

#include "autograd/tape.h"
#include "ops/linear.h"
#include "ops/relu.h"

namespace dptrain::autograd {
namespace {

/// All but the last dimension as one.
Tensor as_rows(const Tensor& x) {
  if (x.shape().rank() == 2) return x;
  const int64_t width = x.shape().dimensions().back();
  return x.reshaped({x.elements() / width, width});
}

Shape with_last(const Shape& shape, int64_t width) {
  std::vector<int64_t> dimensions(shape.dimensions().begin(), shape.dimensions().end());
  dimensions.back() = width;
  return Shape(dimensions);
}

}  // namespace

Variable linear(const Variable& x, const Variable& weight, const Variable& bias, bool relu) {
  const Shape shape = x.value().shape();
  const Tensor rows = as_rows(x.value());
  const Tensor y = ops::linear_forward(rows, weight.value(), bias.defined() ? bias.value() : Tensor(), relu);
  const Tensor shaped = shape.rank() == 2 ? y : y.reshaped(with_last(shape, y.shape()[1]));
  return x.tape().record(
      shaped, {x, weight, bias}, [=, x = x.without_value(), y = relu ? y : Tensor()](const Tensor& output_gradient) {
        const Tensor incoming = relu ? ops::relu_backward(y, as_rows(output_gradient)) : as_rows(output_gradient);
        const GradientSink for_weight = weight.gradient_sink();
        const GradientSink for_bias = bias.defined() ? bias.gradient_sink() : GradientSink{};
        ops::linear_backward_weights(rows, incoming,
                                     {.weight = for_weight.target,
                                      .bias = for_bias.target,
                                      .accumulate_weight = for_weight.accumulate,
                                      .accumulate_bias = for_bias.accumulate});
        if (!x.requires_gradient()) return;
        const Tensor gradient = ops::linear_backward_data(weight.value(), incoming);
        x.add_gradient(shape.rank() == 2 ? gradient : gradient.reshaped(shape));
      });
}

}  // namespace dptrain::autograd
