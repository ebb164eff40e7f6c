#include "autograd/batch_norm.h"

#include <utility>

#include "autograd/tape.h"
#include "ops/batch_norm_parts.h"

namespace dptrain::autograd {
namespace {

ops::BatchNormSinks sinks_of(const Variable& gamma, const Variable& beta) {
  const GradientSink for_gamma = gamma.gradient_sink(), for_beta = beta.gradient_sink();
  return {.gamma = for_gamma.target,
          .beta = for_beta.target,
          .accumulate_gamma = for_gamma.accumulate,
          .accumulate_beta = for_beta.accumulate};
}

/// A forward pass, and what its backward pass also reads if the statistics are those of all devices.
struct Forward {
  ops::BatchNormTraining pass;
  Tensor means;  ///< ops::BatchNormSums::means; undefined for other statistics
};

Forward forward_over(SumOverDevices& devices, const ops::BatchNormInputs& in, const ops::BatchNormOptions& options) {
  const ops::BatchNormPart part = ops::batch_norm_part(in.x);
  devices.sum(part.sums);
  const Tensor squares = ops::batch_norm_part_squares(in.x, part);
  devices.sum(squares);
  return {.pass = ops::batch_norm_by_sums(in, {.means = part.sums, .squares = squares}, options), .means = part.sums};
}

ops::BatchNormGradients backward_over(SumOverDevices& devices, const ops::BatchNormInputs& in, const Forward& forward,
                                      const Tensor& output_gradient, const ops::BatchNormSinks& sinks,
                                      const ops::BatchNormOptions& options) {
  const Tensor sums = ops::batch_norm_gradient_sums(in, forward.pass, output_gradient, sinks, options);
  devices.sum(sums);
  return ops::batch_norm_backward_by_sums(
      in, forward.pass, {.output_gradient = output_gradient, .means = forward.means, .sums = sums}, options);
}

/// Features are normalized as images of one position, without a copy.
bool are_features(const Tensor& x) { return x.defined() && x.shape().rank() == 2; }
Tensor as_images(const Tensor& x) {
  return are_features(x) ? x.window(0, {x.shape()[0], x.shape()[1], 1, 1}, Layout::nhwc) : x;
}

/// as_images for a tensor whose memory only the returned value is to hold.
Tensor taken_as_images(Tensor x) { return as_images(x); }

}  // namespace

Variable batch_norm(const Variable& x, const BatchNormArguments& a, const ops::BatchNormOptions& options) {
  const bool features = are_features(x.value());
  const auto as_it_came = [features](const Tensor& images) {
    return features ? images.reshaped({images.shape()[0], images.shape()[1]}) : images;
  };
  ops::BatchNormInputs in{.x = as_images(x.value()),
                          .gamma = a.gamma.value(),
                          .beta = a.beta.value(),
                          .running_mean = a.running_mean,
                          .running_variance = a.running_variance,
                          .residual = a.residual.defined() ? as_images(a.residual.value()) : Tensor()};
  SumOverDevices* const devices = a.training ? a.devices : nullptr;
  Forward forward = devices != nullptr ? forward_over(*devices, in, options)
                                       : Forward{.pass = a.training ? ops::batch_norm_training(in, options)
                                                                    : ops::batch_norm_by_running(in, options),
                                                 .means = {}};
  ops::BatchNormOptions backward_options = options;
  backward_options.constant_statistics = !a.training;
  const Tensor y = as_it_came(forward.pass.y);
  // Backward reads the output only to see where a ReLU cut a sum with a residual; in other cases the output isn't kept
  // alive. The residual itself isn't read again: x takes its place.
  if (a.residual.defined()) in.residual = in.x;
  if (!a.residual.defined() || !options.relu) forward.pass.y = Tensor();
  // Backward asks gamma and beta for their tensors when it runs, so their memory isn't kept here.
  in.gamma = in.beta = Tensor();
  const auto inputs = [in, gamma = a.gamma, beta = a.beta] {
    ops::BatchNormInputs all = in;
    all.gamma = gamma.value();
    all.beta = beta.value();
    return all;
  };
  const bool is_narrow = a.residual.defined() && a.residual.value().shape() != y.shape();
  const Layout residual_layout = a.residual.defined() ? a.residual.value().layout() : Layout::plain;
  const auto backward = [=, x = x.without_value(), gamma = a.gamma, beta = a.beta,
                         residual = a.residual.without_value()](ops::SummedGradient output_gradient) {
    ops::SummedGradient incoming(taken_as_images(std::move(output_gradient.first)),
                                 taken_as_images(std::move(output_gradient.second)));
    ops::BatchNormSinks sinks = sinks_of(gamma, beta);
    if (devices == nullptr) {
      sinks.wider = x.take_wider();
      if (!sinks.wider.defined()) sinks.x = taken_as_images(x.take_sum());
    }
    const ops::BatchNormGradients gradients =
        devices != nullptr
            ? backward_over(*devices, inputs(), forward, std::move(incoming).sum(), sinks, backward_options)
            : ops::batch_norm_backward(inputs(), forward.pass, std::move(incoming), sinks, backward_options);
    if (residual.defined() && is_narrow)
      residual.add_first_channels(gradients.residual, residual_layout);
    else if (residual.defined())
      residual.add_gradient(as_it_came(gradients.residual));
    x.add_gradient(as_it_came(gradients.x));
  };
  if (a.residual.defined()) return x.tape().record_summing(y, {x, a.gamma, a.beta, a.residual}, backward);
  return x.tape().record_summing(y, {x, a.gamma, a.beta}, backward, [inputs, pass = forward.pass, options, as_it_came] {
    return as_it_came(ops::batch_norm_again(inputs(), pass, options));
  });
}

}  // namespace dptrain::autograd
