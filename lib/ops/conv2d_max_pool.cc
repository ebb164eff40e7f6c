#include "ops/conv2d_max_pool.h"

#include "base/check.h"
#include "ops/conv2d_max_pool_cpu.h"
#include "ops/dispatch.h"

namespace dptrain::ops {
namespace {

Shape output_shape(const TensorForm& x, const Shape& weight, const Conv2dMaxPoolOptions& options) {
  DPTRAIN_CHECK(convolves_and_pools(x, weight, options), "conv2d_max_pool: input {} and weight {}", x.shape.text(),
                weight.text());
  const auto size = [&](int dimension) {
    return (x.shape[dimension] + 2 * options.convolution.padding - weight[dimension] + 1) / options.pool.kernel;
  };
  return {x.shape[0], weight[0], size(2), size(3)};
}

/// Operations of a product for each maximum, input channel and pixel of the window; the gradients need as many.
double flops_of(const Shape& y, const Shape& weight) {
  return 2.0 * static_cast<double>(y.elements()) * static_cast<double>(weight.elements() / weight[0]);
}

}  // namespace

bool convolves_and_pools(const TensorForm& x, const Shape& weight, const Conv2dMaxPoolOptions& options) {
  return x.device.kind() == DeviceKind::cpu && cpu::convolves_and_pools(x, weight, options);
}

Pool2dResult conv2d_max_pool_forward(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                     const Conv2dMaxPoolOptions& options) {
  Device& device = common_device("conv2d_max_pool", {&x, &weight, &bias});
  const Shape shape = output_shape(x, weight.shape(), options);
  if (bias.defined()) require_shape("conv2d_max_pool", "bias", bias.shape(), {weight.shape()[0]});
  count_flops(device, static_cast<double>(options.pool.kernel * options.pool.kernel) * flops_of(shape, weight.shape()));
  const LoggedOperator logged("conv2d_max_pool", device);
  return cpu::conv2d_max_pool_forward(x, weight, bias, shape, options);
}

Tensor conv2d_max_pool_backward_data(const TensorForm& x, const Tensor& weight, const MaximaGradient& incoming,
                                     const Conv2dMaxPoolOptions& options) {
  Device& device = common_device("conv2d_max_pool backward", x, {&weight, &incoming.workspace, &incoming.gradient});
  const Shape shape = output_shape(x, weight.shape(), options);
  require_shape("conv2d_max_pool backward", "output gradient", incoming.gradient.shape(), shape);
  count_flops(device, flops_of(shape, weight.shape()));
  const LoggedOperator logged("conv2d_max_pool backward", device);
  return cpu::conv2d_max_pool_backward_data(x, weight, incoming, options);
}

void conv2d_max_pool_backward_weights(const Tensor& x, const MaximaGradient& incoming,
                                      const Conv2dWeightGradients& gradients, const Conv2dMaxPoolOptions& options) {
  Device& device = common_device("conv2d_max_pool backward",
                                 {&x, &incoming.workspace, &incoming.gradient, &gradients.weight, &gradients.bias});
  const Shape shape = output_shape(x, gradients.weight.shape(), options);
  require_shape("conv2d_max_pool backward", "output gradient", incoming.gradient.shape(), shape);
  count_flops(device, flops_of(shape, gradients.weight.shape()));
  const LoggedOperator logged("conv2d_max_pool backward", device);
  cpu::conv2d_max_pool_backward_weights(x, incoming, gradients, options);
}

}  // namespace dptrain::ops
