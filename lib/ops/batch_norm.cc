#include "ops/batch_norm.h"

#include "base/check.h"
#include "ops/batch_norm_cpu.h"
#include "ops/batch_norm_cuda.h"
#include "ops/batch_norm_inputs.h"
#include "ops/dispatch.h"

namespace dptrain::ops {
Device& checked_inputs(std::string_view op, const BatchNormInputs& in) {
  Device& device =
      common_device(op, {&in.x, &in.gamma, &in.beta, &in.running_mean, &in.running_variance, &in.residual});
  DPTRAIN_CHECK(in.x.shape().rank() == 4, "{}: input {}", op, in.x.shape().text());
  const Shape channels = {in.x.shape()[1]};
  for (const Tensor* tensor : {&in.gamma, &in.beta, &in.running_mean, &in.running_variance})
    require_shape(op, "a parameter", tensor->shape(), channels);
  if (in.residual.defined()) require_shape(op, "residual", in.residual.shape(), in.x.shape());
  return device;
}

BatchNormTraining batch_norm_training(const BatchNormInputs& in, const BatchNormOptions& options) {
  Device& device = checked_inputs("batch_norm", in);
  // Without samples there is nothing to normalize, and the running statistics have nothing to learn.
  if (in.x.elements() == 0)
    return {.y = Tensor::empty(device, in.x.shape(), {.dtype = in.x.dtype(), .layout = in.x.layout()}),
            .mean = Tensor::zeros(device, in.gamma.shape()),
            .inverse_deviation = Tensor::zeros(device, in.gamma.shape())};
  return on_device(
      "batch_norm", device, [&] { return cpu::batch_norm_training(in, options); },
      [&] { return cuda::batch_norm_training(in, options); });
}

BatchNormTraining batch_norm_by_running(const BatchNormInputs& in, const BatchNormOptions& options) {
  Device& device = checked_inputs("batch_norm", in);
  return on_device(
      "batch_norm", device, [&] { return cpu::batch_norm_by_running(in, options); },
      [&] { return cuda::batch_norm_by_running(in, options); });
}

Tensor batch_norm_again(const BatchNormInputs& in, const BatchNormTraining& forward, const BatchNormOptions& options) {
  Device& device = checked_inputs("batch_norm", in);
  common_device("batch_norm again", {&in.x, &forward.mean, &forward.inverse_deviation});
  DPTRAIN_CHECK(!in.residual.defined(), "batch_norm again, with a residual");
  return on_device(
      "batch_norm again", device, [&] { return cpu::batch_norm_again(in, forward, options); },
      [&] { return cuda::batch_norm_again(in, forward, options); });
}

Tensor batch_norm_evaluation(const BatchNormInputs& in, const BatchNormOptions& options) {
  return batch_norm_by_running(in, options).y;
}

BatchNormGradients batch_norm_backward(const BatchNormInputs& in, const BatchNormTraining& forward,
                                       const Tensor& output_gradient, const BatchNormOptions& options) {
  Device& device = checked_inputs("batch_norm", in);
  common_device("batch_norm backward",
                {&in.x, &forward.y, &forward.mean, &forward.inverse_deviation, &output_gradient});
  require_shape("batch_norm backward", "output gradient", output_gradient.shape(), in.x.shape());
  return on_device(
      "batch_norm backward", device, [&] { return cpu::batch_norm_backward(in, forward, output_gradient, options); },
      [&] { return cuda::batch_norm_backward(in, forward, output_gradient, options); });
}

}  // namespace dptrain::ops
