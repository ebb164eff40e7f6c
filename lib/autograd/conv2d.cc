#include "autograd/conv2d.h"

#include "autograd/pool2d.h"
#include "autograd/tape.h"
#include "ops/activation.h"

namespace dptrain::autograd {
namespace {

/// Whether a backward pass writes the gradient of `weight` or `bias`; `bias` may be undefined.
bool trains(const Variable& weight, const Variable& bias) {
  return weight.requires_gradient() || (bias.defined() && bias.requires_gradient());
}

/// Where the gradients of `weight` and `bias` go; `bias` may be undefined.
ops::Conv2dWeightGradients gradients_of(const Variable& weight, const Variable& bias,
                                        BiasGradient bias_gradient = BiasGradient::summed) {
  const GradientSink for_weight = weight.gradient_sink(), for_bias = bias_sink(bias, bias_gradient);
  return {.weight = for_weight.target,
          .bias = for_bias.target,
          .accumulate_weight = for_weight.accumulate,
          .accumulate_bias = for_bias.accumulate};
}

}  // namespace

Variable conv2d(const Variable& x, const Variable& weight, const Variable& bias, const ops::Conv2dOptions& options,
                BiasGradient bias_gradient) {
  Tensor y = ops::conv2d_forward(x.value(), weight.value(), bias.defined() ? bias.value() : Tensor(), options);
  return x.tape().record(
      y, {x, weight, bias},
      [=, form = TensorForm(x.value()), saved = trains(weight, bias) ? x.saved() : SavedValue(Tensor()),
       x = x.without_value(), y = options.relu ? y : Tensor()](const Tensor& output_gradient) {
        const Tensor incoming =
            options.relu ? ops::activation_backward(ops::kRelu, y, output_gradient) : output_gradient;
        if (trains(weight, bias))
          x.tape().in_weights_pass(incoming, [=](const Tensor& gradient) {
            ops::conv2d_backward_weights(saved.value(), gradient, gradients_of(weight, bias, bias_gradient), options);
          });
        if (x.requires_gradient()) x.add_gradient(ops::conv2d_backward_data(form, weight.value(), incoming, options));
      });
}

Variable conv2d_max_pool(const Variable& x, const Variable& weight, const Variable& bias,
                         const ops::Conv2dMaxPoolOptions& options) {
  if (!ops::convolves_and_pools(x.value(), weight.value().shape(), options))
    return max_pool2d(conv2d(x, weight, bias, options.convolution), options.pool);
  const ops::Pool2dResult result =
      ops::conv2d_max_pool_forward(x.value(), weight.value(), bias.defined() ? bias.value() : Tensor(), options);
  return x.tape().record(
      result.y, {x, weight, bias},
      [=, form = TensorForm(x.value()), saved = trains(weight, bias) ? x.saved() : SavedValue(Tensor()),
       x = x.without_value(), workspace = result.workspace](const Tensor& output_gradient) {
        const ops::MaximaGradient incoming{.workspace = workspace, .gradient = output_gradient};
        if (trains(weight, bias))
          x.tape().in_weights_pass(output_gradient, [=](const Tensor& gradient) {
            ops::conv2d_max_pool_backward_weights(saved.value(), {.workspace = workspace, .gradient = gradient},
                                                  gradients_of(weight, bias), options);
          });
        if (x.requires_gradient())
          x.add_gradient(ops::conv2d_max_pool_backward_data(form, weight.value(), incoming, options));
      });
}

}  // namespace dptrain::autograd
