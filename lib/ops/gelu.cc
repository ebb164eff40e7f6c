#include "ops/gelu.h"

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

}  // namespace dptrain::ops
