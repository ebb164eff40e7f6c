#include "ops/gelu.h"

#include "ops/activation.h"
#include "ops/bias_cpu.h"
#include "ops/bias_cuda.h"
#include "ops/dispatch.h"
#include "ops/elementwise_cpu.h"
#include "ops/elementwise_cuda.h"

namespace dptrain::ops {

Tensor gelu_backward(const Tensor& x, const Tensor& output_gradient, const BiasSink& bias) {
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
        cpu::activation_backward(kGelu, x, output_gradient, gradient);
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
