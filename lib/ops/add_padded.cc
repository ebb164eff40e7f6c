#include "ops/add_padded.h"

#include "base/check.h"
#include "ops/add_padded_cpu.h"
#include "ops/add_padded_cuda.h"
#include "ops/dispatch.h"
#include "ops/reorder.h"

namespace dptrain::ops {
namespace {

void require_fewer_channels(const char* op, const Shape& x, const Shape& y) {
  DPTRAIN_CHECK(x.rank() == 4 && y.rank() == 4 && x[0] == y[0] && x[1] <= y[1] && x[2] == y[2] && x[3] == y[3],
                "{}: {} to be padded to {}", op, x.text(), y.text());
}

}  // namespace

Tensor add_padded(const Tensor& y, const Tensor& x) {
  Device& device = common_device("add_padded", {&y, &x});
  require_fewer_channels("add_padded", x.shape(), y.shape());
  const Tensor added = reorder(x, y.layout());
  const Tensor sum = Tensor::empty(device, y.shape(), {.dtype = y.dtype(), .layout = y.layout()});
  if (sum.elements() == 0) return sum;
  on_device(
      "add_padded", device, [&] { cpu::add_padded(y, added, sum); }, [&] { cuda::add_padded(y, added, sum); });
  return sum;
}

Tensor add_padded_backward(const TensorForm& x, const Tensor& output_gradient) {
  Device& device = common_device("add_padded backward", x, {&output_gradient});
  require_fewer_channels("add_padded backward", x.shape, output_gradient.shape());
  const Tensor gradient =
      Tensor::empty(device, x.shape, {.dtype = output_gradient.dtype(), .layout = output_gradient.layout()});
  if (gradient.elements() > 0)
    on_device(
        "add_padded backward", device, [&] { cpu::first_channels(output_gradient, gradient); },
        [&] { cuda::first_channels(output_gradient, gradient); });
  return reorder(gradient, x.layout);
}

}  // namespace dptrain::ops
