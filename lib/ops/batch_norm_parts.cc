#include "ops/batch_norm_parts.h"

#include "base/check.h"
#include "ops/batch_norm_inputs.h"
#include "ops/batch_norm_parts_cpu.h"
#include "ops/batch_norm_parts_cuda.h"
#include "ops/dispatch.h"

namespace dptrain::ops {
namespace {

Shape channels_of(const Tensor& x) { return {x.shape()[1]}; }
Shape channels_and_samples_of(const Tensor& x) { return {x.shape()[1] + 1}; }
Shape twice_channels_of(const Tensor& x) { return {2 * x.shape()[1]}; }

}  // namespace

BatchNormPart batch_norm_part(const Tensor& x) {
  DPTRAIN_CHECK(x.shape().rank() == 4, "batch_norm part: input {}", x.shape().text());
  Device& device = x.device();
  // Without samples every sum is zero.
  if (x.elements() == 0)
    return {.mean = Tensor::zeros(device, channels_of(x)),
            .squares = Tensor::zeros(device, channels_of(x)),
            .sums = Tensor::zeros(device, channels_and_samples_of(x))};
  return on_device(
      "batch_norm part", device, [&] { return cpu::batch_norm_part(x); }, [&] { return cuda::batch_norm_part(x); });
}

Tensor batch_norm_part_squares(const Tensor& x, const BatchNormPart& part) {
  Device& device = common_device("batch_norm squares", {&x, &part.mean, &part.squares, &part.sums});
  require_shape("batch_norm squares", "mean", part.mean.shape(), channels_of(x));
  require_shape("batch_norm squares", "squares", part.squares.shape(), channels_of(x));
  require_shape("batch_norm squares", "sums", part.sums.shape(), channels_and_samples_of(x));
  return on_device(
      "batch_norm squares", device, [&] { return cpu::batch_norm_part_squares(x, part); },
      [&] { return cuda::batch_norm_part_squares(x, part); });
}

BatchNormTraining batch_norm_by_sums(const BatchNormInputs& in, const BatchNormSums& sums,
                                     const BatchNormOptions& options) {
  Device& device = checked_inputs("batch_norm by sums", in);
  common_device("batch_norm by sums", {&in.x, &sums.means, &sums.squares});
  require_shape("batch_norm by sums", "means", sums.means.shape(), channels_and_samples_of(in.x));
  require_shape("batch_norm by sums", "squares", sums.squares.shape(), channels_of(in.x));
  return on_device(
      "batch_norm by sums", device, [&] { return cpu::batch_norm_by_sums(in, sums, options); },
      [&] { return cuda::batch_norm_by_sums(in, sums, options); });
}

Tensor batch_norm_gradient_sums(const BatchNormInputs& in, const BatchNormTraining& forward,
                                const Tensor& output_gradient, const BatchNormSinks& sinks,
                                const BatchNormOptions& options) {
  Device& device = checked_inputs("batch_norm gradient sums", in);
  check_sinks("batch_norm gradient sums", in, sinks);
  DPTRAIN_CHECK(!sinks.x.defined(), "batch_norm gradient sums: a sink for {}", in.x.text());
  common_device("batch_norm gradient sums",
                {&in.x, &forward.y, &forward.mean, &forward.inverse_deviation, &output_gradient});
  require_shape("batch_norm gradient sums", "output gradient", output_gradient.shape(), in.x.shape());
  if (in.x.elements() == 0) {
    finish_without_samples(sinks);
    return Tensor::zeros(device, twice_channels_of(in.x));
  }
  return on_device(
      "batch_norm gradient sums", device,
      [&] { return cpu::batch_norm_gradient_sums(in, forward, output_gradient, sinks, options); },
      [&] { return cuda::batch_norm_gradient_sums(in, forward, output_gradient, sinks, options); });
}

BatchNormGradients batch_norm_backward_by_sums(const BatchNormInputs& in, const BatchNormTraining& forward,
                                               const BatchNormPartGradient& gradient, const BatchNormOptions& options) {
  Device& device = checked_inputs("batch_norm backward by sums", in);
  common_device("batch_norm backward by sums", {&in.x, &forward.y, &forward.mean, &forward.inverse_deviation,
                                                &gradient.output_gradient, &gradient.means, &gradient.sums});
  require_shape("batch_norm backward by sums", "output gradient", gradient.output_gradient.shape(), in.x.shape());
  require_shape("batch_norm backward by sums", "means", gradient.means.shape(), channels_and_samples_of(in.x));
  require_shape("batch_norm backward by sums", "sums", gradient.sums.shape(), twice_channels_of(in.x));
  return on_device(
      "batch_norm backward by sums", device,
      [&] { return cpu::batch_norm_backward_by_sums(in, forward, gradient, options); },
      [&] { return cuda::batch_norm_backward_by_sums(in, forward, gradient, options); });
}

}  // namespace dptrain::ops
