#include "ops/conv2d.h"

#include "base/check.h"
#include "ops/conv2d_cpu.h"
#include "ops/conv2d_cuda.h"
#include "ops/conv2d_winograd_cpu.h"
#include "ops/dispatch.h"

namespace dptrain::ops {
namespace {

Shape output_shape(const Shape& x, const Shape& weight, const Conv2dOptions& options) {
  DPTRAIN_CHECK(x.rank() == 4 && weight.rank() == 4 && x[1] == weight[1], "conv2d: input {} and weight {}", x.text(),
                weight.text());
  DPTRAIN_CHECK(options.stride > 0, "conv2d: stride {}", options.stride);
  // The distance over which the window can move.
  const auto span = [&](int dimension) { return x[dimension] + 2 * options.padding - weight[dimension]; };
  DPTRAIN_CHECK(span(2) >= 0 && span(3) >= 0, "conv2d: input {} is smaller than weight {}", x.text(), weight.text());
  return {x[0], weight[0], span(2) / options.stride + 1, span(3) / options.stride + 1};
}

/// Operations of one of the three passes: a product for each output, input channel and pixel of the window.
double flops_of(const Shape& y, const Shape& weight) {
  return 2.0 * static_cast<double>(y.elements()) * static_cast<double>(weight.elements() / weight[0]);
}

}  // namespace

Tensor conv2d_forward(const Tensor& x, const Tensor& weight, const Tensor& bias, const Conv2dOptions& options) {
  Device& device = common_device("conv2d", {&x, &weight, &bias});
  const Shape shape = output_shape(x.shape(), weight.shape(), options);
  if (bias.defined()) require_shape("conv2d", "bias", bias.shape(), {weight.shape()[0]});
  count_flops(device, flops_of(shape, weight.shape()));
  return on_device(
      "conv2d", device,
      [&] {
        if (is_logged_gpu(device)) return Tensor::empty(device, shape, {.dtype = x.dtype(), .layout = Layout::nhwc});
        return cpu::conv2d_forward(x, weight, bias, shape, options);
      },
      [&] { return cuda::conv2d_forward(x, weight, bias, shape, options); });
}

Tensor conv2d_backward_data(const TensorForm& x, const Tensor& weight, const Tensor& output_gradient,
                            const Conv2dOptions& options) {
  Device& device = common_device("conv2d backward data", x, {&weight, &output_gradient});
  require_shape("conv2d backward data", "output gradient", output_gradient.shape(),
                output_shape(x.shape, weight.shape(), options));
  count_flops(device, flops_of(output_gradient.shape(), weight.shape()));
  return on_device(
      "conv2d backward data", device,
      [&] {
        if (is_logged_gpu(device)) return Tensor::empty(device, x.shape, {.dtype = x.dtype, .layout = x.layout});
        return cpu::conv2d_backward_data(x, weight, output_gradient, options);
      },
      [&] { return cuda::conv2d_backward_data(x, weight, output_gradient, options); });
}

void conv2d_backward_weights(const Tensor& x, const Tensor& output_gradient, const Conv2dWeightGradients& gradients,
                             const Conv2dOptions& options) {
  Device& device = common_device("conv2d backward weights", {&x, &output_gradient, &gradients.weight, &gradients.bias});
  require_shape("conv2d backward weights", "output gradient", output_gradient.shape(),
                output_shape(x.shape(), gradients.weight.shape(), options));
  count_flops(device, flops_of(output_gradient.shape(), gradients.weight.shape()));
  return on_device(
      "conv2d backward weights", device,
      [&] {
        if (!is_logged_gpu(device)) cpu::conv2d_backward_weights(x, output_gradient, gradients, options);
      },
      [&] { return cuda::conv2d_backward_weights(x, output_gradient, gradients, options); });
}

Layout conv2d_output_layout(const Device& device, const Shape& weight) {
  switch (device.kind()) {
    case DeviceKind::cpu: return cpu::conv2d_output_layout(weight);
    default: return Layout::nhwc;
  }
}

Layout conv2d_weight_layout(const Device& device, const Shape& weight) {
  switch (device.kind()) {
    case DeviceKind::cpu: return cpu::conv2d_weight_layout(weight);
    default: return Layout::nhwc;
  }
}

bool has_winograd(const Device& device) { return device.kind() != DeviceKind::cpu || cpu::has_winograd(); }

}  // namespace dptrain::ops
