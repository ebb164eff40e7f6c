#include "ops/tanh.h"

#include "ops/dispatch.h"
#include "ops/elementwise_cpu.h"
#include "ops/elementwise_cuda.h"
#include "ops/reorder.h"

namespace dptrain::ops {

Tensor tanh_forward(const Tensor& x) {
  Device& device = common_device("tanh", {&x});
  Tensor y = Tensor::empty(device, x.shape(), {.dtype = x.dtype(), .layout = x.layout()});
  on_device(
      "tanh", device, [&] { cpu::tanh_forward(x, y); }, [&] { cuda::tanh_forward(x, y); });
  return y;
}

Tensor tanh_backward(const Tensor& y, const Tensor& output_gradient) {
  Device& device = common_device("tanh backward", {&y, &output_gradient});
  require_shape("tanh backward", "output gradient", output_gradient.shape(), y.shape());
  const Tensor incoming = reorder(output_gradient, y.layout());
  Tensor gradient = Tensor::empty(device, y.shape(), {.dtype = y.dtype(), .layout = y.layout()});
  on_device(
      "tanh backward", device, [&] { cpu::tanh_backward(y, incoming, gradient); },
      [&] { cuda::tanh_backward(y, incoming, gradient); });
  return gradient;
}

}  // namespace dptrain::ops
