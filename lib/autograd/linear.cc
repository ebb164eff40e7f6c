#include "autograd/linear.h"

#include <utility>
#include <vector>

#include "autograd/elementwise.h"
#include "autograd/tape.h"
#include "ops/activation.h"
#include "ops/gelu.h"
#include "ops/linear.h"

namespace dptrain::autograd {
namespace {

/// Merges all dimensions except the last into one.
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

/// Records a linear layer. `trained` is `bias` if this backward writes the gradient of the bias, and undefined if the
/// next operator does.
Variable record_linear(const Variable& x, const Variable& weight, const Variable& bias, const Variable& trained,
                       const LinearOptions& options = {}) {
  const Shape shape = x.value().shape();
  const Tensor rows = as_rows(x.value());
  const bool relu = options.relu;
  const BiasGradient bias_gradient = options.bias_gradient;
  const Tensor y = ops::linear_forward(rows, weight.value(), bias.defined() ? bias.value() : Tensor(), relu);
  const bool trains_weight = weight.requires_gradient();
  const Tensor shaped = shape.rank() == 2 ? y : y.reshaped(with_last(shape, y.shape()[1]));
  return x.tape().record(
      shaped, {x, weight, trained},
      [=, x = x.without_value(), rows = trains_weight ? rows : Tensor(),
       y = relu ? y : Tensor()](const Tensor& output_gradient) {
        const Tensor incoming =
            relu ? ops::activation_backward(ops::kRelu, y, as_rows(output_gradient)) : as_rows(output_gradient);
        const auto give_weights = [=](const Tensor& gradient) {
          const GradientSink for_bias = bias_sink(trained, bias_gradient);
          if (trains_weight) {
            const GradientSink for_weight = weight.gradient_sink();
            ops::linear_backward_weights(rows, gradient,
                                         {.weight = for_weight.target,
                                          .bias = for_bias.target,
                                          .accumulate_weight = for_weight.accumulate,
                                          .accumulate_bias = for_bias.accumulate});
          } else if (for_bias.target.defined()) {
            ops::linear_backward_bias(gradient, for_bias.target, for_bias.accumulate);
          }
        };
        if (trains_weight || (trained.defined() && trained.requires_gradient()))
          x.tape().in_weights_pass(incoming, give_weights);
        if (!x.requires_gradient()) return;
        Tensor sum = x.take_sum();
        if (sum.defined() && (sum.layout() != Layout::plain || sum.dtype() != incoming.dtype()))
          x.add_gradient(std::exchange(sum, Tensor()));
        const Tensor gradient =
            ops::linear_backward_data(weight.value(), incoming, sum.defined() ? as_rows(sum) : Tensor());
        x.add_gradient(sum.defined() ? sum : shape.rank() == 2 ? gradient : gradient.reshaped(shape));
      });
}

}  // namespace

Variable linear(const Variable& x, const Variable& weight, const Variable& bias, const LinearOptions& options) {
  return record_linear(x, weight, bias, bias, options);
}

Variable linear_gelu(const Variable& x, const Variable& weight, const Variable& bias) {
  if (!bias.defined() || !ops::gelu_sums_up_bias(x.value().device())) return gelu(linear(x, weight, bias));
  const Variable inner = record_linear(x, weight, bias, Variable());
  return x.tape().record(
      ops::activation_forward(ops::kGelu, inner.value()), {inner, bias}, [=](const Tensor& output_gradient) {
        const GradientSink sink = bias.gradient_sink();
        inner.add_gradient(
            ops::gelu_backward(inner.value(), output_gradient, {.target = sink.target, .accumulate = sink.accumulate}));
      });
}

}  // namespace dptrain::autograd
