#include "ops/linear.h"

#include "base/check.h"
#include "ops/add.h"
#include "ops/bias_cpu.h"
#include "ops/bias_cuda.h"
#include "ops/dispatch.h"
#include "ops/linear_cpu.h"
#include "ops/linear_cuda.h"

namespace dptrain::ops {
namespace {

/// Operations of one of the three passes over `rows` rows.
double flops_of(int64_t rows, const Shape& weight) {
  return 2.0 * static_cast<double>(rows) * static_cast<double>(weight.elements());
}

}  // namespace

Tensor linear_forward(const Tensor& x, const Tensor& weight, const Tensor& bias, bool relu) {
  Device& device = common_device("linear", {&x, &weight, &bias});
  DPTRAIN_CHECK(x.shape().rank() == 2 && weight.shape().rank() == 2 && x.shape()[1] == weight.shape()[1],
                "linear: input {} and weight {}", x.shape().text(), weight.shape().text());
  if (bias.defined()) require_shape("linear", "bias", bias.shape(), {weight.shape()[0]});
  count_flops(device, flops_of(x.shape()[0], weight.shape()));
  return on_device(
      "linear", device,
      [&] {
        if (is_logged_gpu(device))
          return Tensor::empty(device, {x.shape()[0], weight.shape()[0]}, {.dtype = x.dtype()});
        return cpu::linear_forward(x, weight, bias, relu);
      },
      [&] { return cuda::linear_forward(x, weight, bias, relu); });
}

Tensor linear_backward_data(const Tensor& weight, const Tensor& output_gradient, const Tensor& sum) {
  // A CPU worker's product can't add to its result.
  if (sum.defined() && weight.device().kind() == DeviceKind::cpu) {
    add_into(sum, linear_backward_data(weight, output_gradient));
    return sum;
  }
  Device& device = common_device("linear backward", {&weight, &output_gradient, &sum});
  if (sum.defined())
    require_shape("linear backward", "sum", sum.shape(), {output_gradient.shape()[0], weight.shape()[1]});
  require_shape("linear backward", "output gradient", output_gradient.shape(),
                {output_gradient.shape()[0], weight.shape()[0]});
  count_flops(device, flops_of(output_gradient.shape()[0], weight.shape()));
  return on_device(
      "linear backward", device,
      [&] {
        if (!is_logged_gpu(device)) return cpu::linear_backward_data(weight, output_gradient);
        if (sum.defined()) return sum;
        return Tensor::empty(device, {output_gradient.shape()[0], weight.shape()[1]},
                             {.dtype = output_gradient.dtype()});
      },
      [&] { return cuda::linear_backward_data(weight, output_gradient, sum); });
}

void linear_backward_weights(const Tensor& x, const Tensor& output_gradient, const LinearWeightGradients& gradients) {
  Device& device = common_device("linear backward", {&x, &output_gradient, &gradients.weight, &gradients.bias});
  require_shape("linear backward", "weight gradient", gradients.weight.shape(),
                {output_gradient.shape()[1], x.shape()[1]});
  require_shape("linear backward", "output gradient", output_gradient.shape(),
                {x.shape()[0], gradients.weight.shape()[0]});
  count_flops(device, flops_of(x.shape()[0], gradients.weight.shape()));
  return on_device(
      "linear backward", device,
      [&] {
        if (!is_logged_gpu(device)) cpu::linear_backward_weights(x, output_gradient, gradients);
      },
      [&] { return cuda::linear_backward_weights(x, output_gradient, gradients); });
}

void linear_backward_bias(const Tensor& output_gradient, const Tensor& bias, bool accumulate) {
  Device& device = common_device("linear backward", {&output_gradient, &bias});
  require_shape("linear backward", "bias gradient", bias.shape(), {output_gradient.shape()[1]});
  if (output_gradient.elements() == 0) {
    if (!accumulate) bias.fill_zero();
    return;
  }
  return on_device(
      "linear backward", device,
      [&] {
        if (!is_logged_gpu(device)) cpu::bias_gradient(output_gradient, bias, accumulate);
      },
      [&] { return cuda::bias_gradient(output_gradient, bias, accumulate); });
}

}  // namespace dptrain::ops
