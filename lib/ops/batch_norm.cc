#include "ops/batch_norm.h"

#include <utility>

#include "base/check.h"
#include "ops/add.h"
#include "ops/add_padded_cpu.h"
#include "ops/batch_norm_cpu.h"
#include "ops/batch_norm_cuda.h"
#include "ops/batch_norm_inputs.h"
#include "ops/channel_prefixes.h"
#include "ops/dispatch.h"
#include "ops/reorder.h"

namespace dptrain::ops {
namespace {

/// Allocates the gradients as a GPU does. The gradient before a ReLU is written only if it is read again, into the
/// incoming gradient's memory if nothing else holds that.
BatchNormGradients logged_gradients(const BatchNormInputs& in, const SummedGradient& output_gradient,
                                    const BatchNormSinks& sinks, bool relu) {
  const TensorOptions like_x{.dtype = in.x.dtype(), .layout = in.x.layout()};
  const auto make = [&] { return Tensor::empty(in.x.device(), in.x.shape(), like_x); };
  const auto& [first, second] = output_gradient;
  const bool as_it_came = !relu && !second.defined();
  Tensor masked;
  if (in.residual.defined() || second.defined()) masked = as_it_came || first.is_unique() ? first : make();
  return {.x = sinks.x.defined() ? sinks.x : make(), .residual = in.residual.defined() ? masked : Tensor()};
}

}  // namespace

Device& checked_inputs(std::string_view op, const BatchNormInputs& in) {
  Device& device =
      common_device(op, {&in.x, &in.gamma, &in.beta, &in.running_mean, &in.running_variance, &in.residual});
  DPTRAIN_CHECK(in.x.shape().rank() == 4, "{}: input {}", op, in.x.shape().text());
  const Shape channels = {in.x.shape()[1]};
  for (const Tensor* tensor : {&in.gamma, &in.beta, &in.running_mean, &in.running_variance})
    require_shape(op, "a parameter", tensor->shape(), channels);
  DPTRAIN_CHECK(!in.residual.defined() || are_first_channels(in.residual.shape(), in.x.shape()),
                "{}: a residual {} of {}", op, in.residual.shape().text(), in.x.shape().text());
  return device;
}

void check_sinks(std::string_view op, const BatchNormInputs& in, const BatchNormSinks& sinks) {
  common_device(op, {&in.x, &sinks.gamma, &sinks.beta});
  for (const Tensor* sink : {&sinks.gamma, &sinks.beta}) {
    require_shape(op, "a parameter's gradient", sink->shape(), in.gamma.shape());
    DPTRAIN_CHECK(sink->dtype() == DType::f32, "{}: a parameter's gradient {}", op, sink->text());
  }
}

void finish_without_samples(const BatchNormSinks& sinks) {
  if (!sinks.accumulate_gamma) sinks.gamma.fill_zero();
  if (!sinks.accumulate_beta) sinks.beta.fill_zero();
}

BatchNormSinks BatchNormSinks::of(const BatchNormInputs& in) {
  return {.gamma = Tensor::empty(in.x.device(), in.gamma.shape()),
          .beta = Tensor::empty(in.x.device(), in.beta.shape())};
}

BatchNormTraining batch_norm_training(const BatchNormInputs& in, const BatchNormOptions& options) {
  Device& device = checked_inputs("batch_norm", in);
  // Without samples there is nothing to normalize, and the running statistics don't change.
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
                                       SummedGradient output_gradient, const BatchNormSinks& sinks,
                                       const BatchNormOptions& options) {
  for (const Tensor* gradient : {&output_gradient.first, &output_gradient.second})
    if (gradient->defined()) require_shape("batch_norm backward", "output gradient", gradient->shape(), in.x.shape());
  if (sinks.x.defined()) {
    require_shape("batch_norm backward", "sum of gradients", sinks.x.shape(), in.x.shape());
    // A CPU worker adds to the sum afterwards. A GPU does too if the sum has another layout than nhwc, in which it
    // computes.
    if (in.x.device().kind() == DeviceKind::cpu || sinks.x.layout() != Layout::nhwc) {
      BatchNormSinks alone = sinks;
      alone.x = Tensor();
      BatchNormGradients gradients = batch_norm_backward(in, forward, std::move(output_gradient), alone, options);
      add_into(sinks.x, reorder(gradients.x, sinks.x.layout()));
      gradients.x = sinks.x;
      return gradients;
    }
  }
  // A CPU worker adds up the two parts beforehand, into memory at hand. A GPU adds them in a pass that it makes anyway.
  if (in.x.device().kind() == DeviceKind::cpu) output_gradient = std::move(output_gradient).sum();
  Device& device = checked_inputs("batch_norm", in);
  check_sinks("batch_norm backward", in, sinks);
  DPTRAIN_CHECK(!sinks.wider.defined() || (!sinks.x.defined() && are_first_channels(in.x.shape(), sinks.wider.shape())),
                "batch_norm backward: a sum {} for {}", sinks.wider.text(), in.x.text());
  common_device("batch_norm backward", {&in.x, &forward.y, &forward.mean, &forward.inverse_deviation,
                                        &output_gradient.first, &output_gradient.second, &sinks.x, &sinks.wider});
  return on_device(
      "batch_norm backward", device,
      [&] {
        if (is_logged_gpu(device)) return logged_gradients(in, output_gradient, sinks, options.relu);
        const auto gradients = cpu::batch_norm_backward(in, forward, output_gradient.first, sinks, options);
        if (sinks.wider.defined())
          cpu::add_first_channels_into(gradients.x, reorder(sinks.wider, gradients.x.layout()));
        return gradients;
      },
      [&] { return cuda::batch_norm_backward(in, forward, output_gradient, sinks, options); });
}

}  // namespace dptrain::ops
