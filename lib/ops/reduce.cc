#include "ops/reduce.h"

#include "ops/dispatch.h"
#include "ops/reduce_cpu.h"
#include "ops/reduce_cuda.h"

namespace dptrain::ops {
namespace {

double factor_of(const Shape& x, Reduction reduction) {
  return reduction == Reduction::mean ? 1.0 / static_cast<double>(x.elements()) : 1.0;
}

}  // namespace

Tensor reduce_forward(const Tensor& x, Reduction reduction) {
  const double factor = factor_of(x.shape(), reduction);
  return on_device(
      "reduce", common_device("reduce", {&x}), [&] { return cpu::scaled_sum(x, factor); },
      [&] { return cuda::scaled_sum(x, factor); });
}

Tensor reduce_backward(const TensorForm& x, const Tensor& output_gradient, Reduction reduction) {
  Device& device = common_device("reduce backward", x, {&output_gradient});
  require_shape("reduce backward", "output gradient", output_gradient.shape(), {1});
  const double factor = factor_of(x.shape, reduction);
  return on_device(
      "reduce backward", device, [&] { return cpu::spread(output_gradient, factor, x); },
      [&] { return cuda::spread(output_gradient, factor, x); });
}

}  // namespace dptrain::ops
