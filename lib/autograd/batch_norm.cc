#include "autograd/batch_norm.h"

#include "autograd/tape.h"
#include "ops/add.h"

namespace dptrain::autograd {
namespace {

void deliver(const Tensor& gradient, const GradientSink& sink) {
  if (sink.accumulate)
    ops::add_into(sink.target, gradient);
  else
    sink.target.copy_from(gradient);
}

}  // namespace

Variable batch_norm(const Variable& x, const BatchNormArguments& a, const ops::BatchNormOptions& options) {
  ops::BatchNormInputs in{.x = x.value(),
                          .gamma = a.gamma.value(),
                          .beta = a.beta.value(),
                          .running_mean = a.running_mean,
                          .running_variance = a.running_variance,
                          .residual = a.residual.defined() ? a.residual.value() : Tensor()};
  ops::BatchNormTraining forward =
      a.training ? ops::batch_norm_training(in, options) : ops::batch_norm_by_running(in, options);
  ops::BatchNormOptions backward_options = options;
  backward_options.constant_statistics = !a.training;
  const Tensor y = forward.y;
  // Only a residual's backward reads the output; without one, it isn't kept alive for it. The residual itself isn't
  // read again: the output stands for it.
  if (a.residual.defined())
    in.residual = y;
  else
    forward.y = Tensor();
  const auto backward = [=, x = x.without_value(), gamma = a.gamma, beta = a.beta,
                         residual = a.residual.without_value()](const Tensor& output_gradient) {
    const ops::BatchNormGradients gradients = ops::batch_norm_backward(in, forward, output_gradient, backward_options);
    deliver(gradients.gamma, gamma.gradient_sink());
    deliver(gradients.beta, beta.gradient_sink());
    if (residual.defined()) residual.add_gradient(gradients.residual);
    x.add_gradient(gradients.x);
  };
  if (a.residual.defined()) return x.tape().record(y, {x, a.gamma, a.beta, a.residual}, backward);
  return x.tape().record(y, {x, a.gamma, a.beta}, backward,
                         [in, forward, options] { return ops::batch_norm_again(in, forward, options); });
}

}  // namespace dptrain::autograd
