#include "ops/layer_norm.h"

#include <utility>

#include "base/check.h"
#include "ops/dispatch.h"
#include "ops/layer_norm_cpu.h"
#include "ops/layer_norm_cuda.h"

namespace dptrain::ops {

LayerNormForward layer_norm_forward(const LayerNormInputs& in, float epsilon) {
  if (in.dropout > 0) {
    DPTRAIN_CHECK(in.residual.defined(), "layer_norm: dropout of {} without a residual", in.x.text());
    require_dropout("layer_norm", in.x, in.dropout, in.key);
  }
  Device& device = common_device("layer_norm", {&in.x, &in.residual, &in.gamma, &in.beta});
  DPTRAIN_CHECK(in.x.shape().rank() > 0 && in.x.layout() == Layout::plain && in.x.shape()[-1] > 0,
                "layer_norm: input {}", in.x.text());
  const int64_t width = in.x.shape()[-1];
  for (const Tensor* parameter : {&in.gamma, &in.beta})
    require_shape("layer_norm", "a parameter", parameter->shape(), {width});
  const bool with_residual = in.residual.defined();
  if (with_residual) require_shape("layer_norm", "residual", in.residual.shape(), in.x.shape());
  const auto compute = [&](const auto& passes) {
    const auto like_x = [&](DType dtype) { return Tensor::empty(device, in.x.shape(), {.dtype = dtype}); };
    const Shape rows = {in.x.elements() / width};
    const LayerNormForward forward{.y = like_x(in.x.dtype()),
                                   .sum = with_residual ? like_x(in.x.dtype()) : in.x,
                                   .mean = Tensor::empty(device, rows),
                                   .inverse_deviation = Tensor::empty(device, rows),
                                   .mask = in.dropout > 0 ? like_x(DType::u8) : Tensor(),
                                   .dropout = in.dropout};
    if (in.x.elements() > 0) passes(in, epsilon, forward);
    return forward;
  };
  return on_device(
      "layer_norm", device, [&] { return compute(cpu::layer_norm_forward); },
      [&] { return compute(cuda::layer_norm_forward); });
}

LayerNormInputGradients layer_norm_backward(const LayerNormForward& forward, const Tensor& gamma,
                                            SummedGradient output_gradient,
                                            const LayerNormParameterGradients& gradients) {
  const Tensor& x = forward.sum;
  for (const Tensor* gradient : {&output_gradient.first, &output_gradient.second})
    if (gradient->defined()) require_shape("layer_norm backward", "output gradient", gradient->shape(), x.shape());
  // A CPU worker adds up the gradient's two parts beforehand; a GPU adds them where it reads them.
  if (x.device().kind() == DeviceKind::cpu) output_gradient = std::move(output_gradient).sum();
  const auto& [incoming, second] = output_gradient;
  Device& device = common_device("layer_norm backward",
                                 {&x, &gamma, &incoming, &second, &gradients.gamma, &gradients.beta, &forward.mask});
  for (const Tensor* parameter : {&gradients.gamma, &gradients.beta})
    require_shape("layer_norm backward", "a parameter's gradient", parameter->shape(), gamma.shape());
  const auto compute = [&](const auto& passes) {
    const auto like_x = [&] { return Tensor::empty(device, x.shape(), {.dtype = x.dtype()}); };
    LayerNormInputGradients of{.x = {}, .residual = like_x()};
    of.x = forward.mask.defined() ? like_x() : of.residual;
    if (x.elements() > 0) {
      passes(of);
      return of;
    }
    if (!gradients.accumulate_gamma) gradients.gamma.fill_zero();
    if (!gradients.accumulate_beta) gradients.beta.fill_zero();
    return of;
  };
  return on_device(
      "layer_norm backward", device,
      [&] {
        return compute([&](const auto& of) { cpu::layer_norm_backward(forward, gamma, incoming, gradients, of); });
      },
      [&] {
        return compute([&](const auto& of) {
          cuda::layer_norm_backward(forward, gamma, std::move(output_gradient), gradients, of);
        });
      });
}

}  // namespace dptrain::ops
