#include "ops/gelu.h"

#include "ops/bias_cpu.h"
#include "ops/bias_cuda.h"
#include "ops/dispatch.h"
#include "ops/elementwise_cpu.h"
#include "ops/elementwise_cuda.h"
#include "ops/reorder.h"

namespace dptrain::ops {

Tensor gelu_forward(const Tensor& x) {
  Device& device = common_device("gelu", {&x});
  Tensor y = Tensor::empty(device, x.shape(), {.dtype = x.dtype(), .layout = x.layout()});
  on_device(
      "gelu", device, [&] { cpu::gelu_forward(x, y); }, [&] { cuda::gelu_forward(x, y); });
  return y;
}

Tensor gelu_backward(const Tensor& x, const Tensor& output_gradient) {
  Device& device = common_device("gelu backward", {&x, &output_gradient});
  require_shape("gelu backward", "output gradient", output_gradient.shape(), x.shape());
  const Tensor incoming = reorder(output_gradient, x.layout());
  Tensor gradient = Tensor::empty(device, x.shape(), {.dtype = x.dtype(), .layout = x.layout()});
  on_device(
      "gelu backward", device, [&] { cpu::gelu_backward(x, incoming, gradient); },
      [&] { cuda::gelu_backward(x, incoming, gradient); });
  return gradient;
}

Tensor gelu_backward(const Tensor& x, const Tensor& output_gradient, const BiasGradient& bias) {
  Device& device = common_device("gelu backward", {&x, &output_gradient, &bias.target});
  require_shape("gelu backward", "output gradient", output_gradient.shape(), x.shape());
  require_shape("gelu backward", "bias gradient", bias.target.shape(), {x.shape()[-1]});
  Tensor gradient = Tensor::empty(device, x.shape(), {.dtype = x.dtype()});
  if (x.elements() == 0) {
    if (!bias.accumulate) bias.target.fill_zero();
    return gradient;
  }
  on_device(
      "gelu backward", device,
      [&] {
        cpu::gelu_backward(x, output_gradient, gradient);
        cpu::bias_gradient(gradient, bias.target, bias.accumulate);
      },
      [&] {
        const Shape rows = {x.elements() / x.shape()[-1], x.shape()[-1]};
        cuda::gelu_bias_backward(x.reshaped(rows), output_gradient.reshaped(rows), gradient.reshaped(rows), bias.target,
                                 bias.accumulate);
      });
  return gradient;
}

bool gelu_sums_up_bias(const Device& device) { return device.kind() == DeviceKind::cuda; }

}  // namespace dptrain::ops
