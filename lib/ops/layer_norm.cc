#include "ops/layer_norm.h"

#include "base/check.h"
#include "ops/dispatch.h"
#include "ops/layer_norm_cpu.h"
#include "ops/layer_norm_cuda.h"

namespace dptrain::ops {

LayerNormForward layer_norm_forward(const LayerNormInputs& in, float epsilon) {
  Device& device = common_device("layer_norm", {&in.x, &in.residual, &in.gamma, &in.beta});
  DPTRAIN_CHECK(in.x.shape().rank() > 0 && in.x.layout() == Layout::plain && in.x.shape()[-1] > 0,
                "layer_norm: input {}", in.x.text());
  const int64_t width = in.x.shape()[-1];
  for (const Tensor* parameter : {&in.gamma, &in.beta})
    require_shape("layer_norm", "a parameter", parameter->shape(), {width});
  const bool with_residual = in.residual.defined();
  if (with_residual) require_shape("layer_norm", "residual", in.residual.shape(), in.x.shape());
  const TensorOptions options{.dtype = in.x.dtype()};
  const Shape rows = {in.x.elements() / width};
  const LayerNormForward forward{.y = Tensor::empty(device, in.x.shape(), options),
                                 .sum = with_residual ? Tensor::empty(device, in.x.shape(), options) : in.x,
                                 .mean = Tensor::empty(device, rows),
                                 .inverse_deviation = Tensor::empty(device, rows)};
  if (in.x.elements() == 0) return forward;
  on_device(
      "layer_norm", device, [&] { cpu::layer_norm_forward(in, epsilon, forward); },
      [&] { cuda::layer_norm_forward(in, epsilon, forward); });
  return forward;
}

Tensor layer_norm_backward(const LayerNormForward& forward, const Tensor& gamma, const Tensor& output_gradient,
                           const LayerNormParameterGradients& gradients) {
  const Tensor& x = forward.sum;
  Device& device =
      common_device("layer_norm backward", {&x, &gamma, &output_gradient, &gradients.gamma, &gradients.beta});
  require_shape("layer_norm backward", "output gradient", output_gradient.shape(), x.shape());
  for (const Tensor* parameter : {&gradients.gamma, &gradients.beta})
    require_shape("layer_norm backward", "a parameter's gradient", parameter->shape(), gamma.shape());
  const Tensor gradient = Tensor::empty(device, x.shape(), {.dtype = x.dtype()});
  if (x.elements() == 0) {
    if (!gradients.accumulate_gamma) gradients.gamma.fill_zero();
    if (!gradients.accumulate_beta) gradients.beta.fill_zero();
    return gradient;
  }
  on_device(
      "layer_norm backward", device,
      [&] { cpu::layer_norm_backward(forward, gamma, output_gradient, gradients, gradient); },
      [&] { cuda::layer_norm_backward(forward, gamma, output_gradient, gradients, gradient); });
  return gradient;
}

}  // namespace dptrain::ops
