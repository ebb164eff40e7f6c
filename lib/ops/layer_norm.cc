#include "ops/layer_norm.h"

#include "base/check.h"
#include "ops/dispatch.h"
#include "ops/layer_norm_cpu.h"
#include "ops/layer_norm_cuda.h"

namespace dptrain::ops {
namespace {

/// On GPUs dropout is a pass of its own.
bool in_one_pass(const Device& device) { return device.kind() == DeviceKind::cpu; }

}  // namespace

LayerNormForward layer_norm_forward(const LayerNormInputs& in, float epsilon) {
  if (in.dropout > 0) {
    DPTRAIN_CHECK(in.residual.defined(), "layer_norm: dropout of {} without a residual", in.x.text());
    require_dropout("layer_norm", in.x, in.dropout, in.key);
    // Before anything is looked at: each pass tells a plan by itself what it reads.
    if (!in_one_pass(in.x.device())) {
      const DropoutResult dropped = dropout_forward(in.x, in.dropout, in.key);
      LayerNormForward forward =
          layer_norm_forward({.x = dropped.y, .residual = in.residual, .gamma = in.gamma, .beta = in.beta}, epsilon);
      forward.mask = dropped.mask;
      forward.dropout = in.dropout;
      return forward;
    }
  }
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
  const LayerNormForward forward{
      .y = Tensor::empty(device, in.x.shape(), options),
      .sum = with_residual ? Tensor::empty(device, in.x.shape(), options) : in.x,
      .mean = Tensor::empty(device, rows),
      .inverse_deviation = Tensor::empty(device, rows),
      .mask = in.dropout > 0 ? Tensor::empty(device, in.x.shape(), {.dtype = DType::u8}) : Tensor(),
      .dropout = in.dropout};
  if (in.x.elements() == 0) return forward;
  on_device(
      "layer_norm", device, [&] { cpu::layer_norm_forward(in, epsilon, forward); },
      [&] { cuda::layer_norm_forward(in, epsilon, forward); });
  return forward;
}

LayerNormInputGradients layer_norm_backward(const LayerNormForward& forward, const Tensor& gamma,
                                            const Tensor& output_gradient,
                                            const LayerNormParameterGradients& gradients) {
  const Tensor& x = forward.sum;
  Device& device = common_device("layer_norm backward",
                                 {&x, &gamma, &output_gradient, &gradients.gamma, &gradients.beta, &forward.mask});
  require_shape("layer_norm backward", "output gradient", output_gradient.shape(), x.shape());
  for (const Tensor* parameter : {&gradients.gamma, &gradients.beta})
    require_shape("layer_norm backward", "a parameter's gradient", parameter->shape(), gamma.shape());
  const bool masks_here = forward.mask.defined() && in_one_pass(device);
  const Tensor of_sum = Tensor::empty(device, x.shape(), {.dtype = x.dtype()});
  LayerNormInputGradients of{.x = masks_here ? Tensor::empty(device, x.shape(), {.dtype = x.dtype()}) : of_sum,
                             .residual = of_sum};
  if (x.elements() == 0) {
    if (!gradients.accumulate_gamma) gradients.gamma.fill_zero();
    if (!gradients.accumulate_beta) gradients.beta.fill_zero();
    return of;
  }
  on_device(
      "layer_norm backward", device, [&] { cpu::layer_norm_backward(forward, gamma, output_gradient, gradients, of); },
      [&] { cuda::layer_norm_backward(forward, gamma, output_gradient, gradients, of_sum); });
  if (forward.mask.defined() && !masks_here) of.x = dropout_backward(forward.mask, of_sum, forward.dropout);
  return of;
}

}  // namespace dptrain::ops
