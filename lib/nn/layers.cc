#include "nn/layers.h"

#include "autograd/batch_norm.h"
#include "autograd/conv2d.h"
#include "autograd/dropout.h"
#include "autograd/embedding.h"
#include "autograd/layer_norm.h"
#include "autograd/linear.h"

namespace dptrain::nn {
namespace {

Shape weight_shape(const Conv2dSizes& s) { return {s.out_channels, s.in_channels, s.kernel, s.kernel}; }

Layout weight_layout(const LayerOptions& options, const Shape& weight) {
  return options.plain_weights ? Layout::plain : ops::conv2d_weight_layout(options.device, weight);
}

autograd::BiasGradient bias_gradient(bool feeds_batch_norm, const ForwardContext& context) {
  return feeds_batch_norm && context.training ? autograd::BiasGradient::zero : autograd::BiasGradient::summed;
}

}  // namespace

Conv2d::Conv2d(const LayerOptions& options, const Conv2dSizes& sizes, std::optional<Initializer> weight)
    : options_{.stride = sizes.stride, .padding = sizes.padding, .relu = sizes.relu, .algorithm = options.convolution},
      weight_(add_parameter("weight", weight_shape(sizes),
                            weight.value_or(Initializer::by_fan_in(sizes.in_channels * sizes.kernel * sizes.kernel)),
                            weight_layout(options, weight_shape(sizes)))),
      bias_(sizes.bias ? &add_parameter("bias", {sizes.out_channels},
                                        Initializer::by_fan_in(sizes.in_channels * sizes.kernel * sizes.kernel))
                       : nullptr) {}

Variable Conv2d::forward(const Variable& x, const ForwardContext& context) {
  const Variable weight = context.tape.use(weight_), bias = bias_ != nullptr ? context.tape.use(*bias_) : Variable();
  if (!max_pool_) return autograd::conv2d(x, weight, bias, options_, bias_gradient(feeds_batch_norm_, context));
  return autograd::conv2d_max_pool(x, weight, bias, {.convolution = options_, .pool = *max_pool_});
}

Linear::Linear(int64_t in, int64_t out, const LinearOptions& options)
    : activation_(options.activation),
      weight_(add_parameter("weight", {out, in}, options.weight.value_or(Initializer::by_fan_in(in)))),
      bias_(options.with_bias ? &add_parameter("bias", {out}, options.bias.value_or(Initializer::by_fan_in(in)))
                              : nullptr) {}

Variable Linear::forward(const Variable& x, const ForwardContext& context) {
  using Activation = LinearOptions::Activation;
  const Variable weight = context.tape.use(weight_), bias = bias_ != nullptr ? context.tape.use(*bias_) : Variable();
  if (activation_ == Activation::gelu) return autograd::linear_gelu(x, weight, bias);
  return autograd::linear(
      x, weight, bias,
      {.relu = activation_ == Activation::relu, .bias_gradient = bias_gradient(feeds_batch_norm_, context)});
}

BatchNorm::BatchNorm(int64_t channels, const ops::BatchNormOptions& options)
    : options_(options),
      gamma_(add_parameter("weight", {channels}, Initializer::constant(1), Layout::plain, Operand::value)),
      beta_(add_parameter("bias", {channels}, Initializer::constant(0), Layout::plain, Operand::value)),
      running_mean_(add_state("running_mean", {channels}, 0)),
      running_variance_(add_state("running_var", {channels}, 1)) {}

Variable BatchNorm::forward(const Variable& x, const ForwardContext& context) {
  return forward(x, Variable(), context);
}

Variable BatchNorm::forward(const Variable& x, const Variable& residual, const ForwardContext& context) {
  return autograd::batch_norm(x,
                              {.gamma = context.tape.use(gamma_),
                               .beta = context.tape.use(beta_),
                               .running_mean = running_mean_.value,
                               .running_variance = running_variance_.value,
                               .residual = residual,
                               .training = context.training,
                               .devices = context.statistics},
                              options_);
}

LayerNorm::LayerNorm(int64_t width, float epsilon)
    : epsilon_(epsilon),
      gamma_(add_parameter("weight", {width}, Initializer::constant(1), Layout::plain, Operand::value)),
      beta_(add_parameter("bias", {width}, Initializer::constant(0), Layout::plain, Operand::value)) {}

Variable LayerNorm::forward(const Variable& x, const ForwardContext& context) {
  return forward(x, Variable(), context);
}

Variable LayerNorm::forward(const Variable& x, const Variable& residual, const ForwardContext& context) {
  return autograd::layer_norm(
      x,
      {.gamma = context.tape.use(gamma_), .beta = context.tape.use(beta_), .residual = residual, .epsilon = epsilon_});
}

Variable LayerNorm::forward(const Variable& x, const Dropout& dropout, const Variable& residual,
                            const ForwardContext& context) {
  const float probability = dropout.probability(context);
  if (probability == 0.f) return forward(x, residual, context);
  return autograd::layer_norm(x, {.gamma = context.tape.use(gamma_),
                                  .beta = context.tape.use(beta_),
                                  .residual = residual,
                                  .epsilon = epsilon_,
                                  .dropout = probability,
                                  .key = dropout.key(x, context)});
}

Embedding::Embedding(int64_t count, int64_t width, const Initializer& weight, int32_t padding)
    : padding_(padding), weight_(add_parameter("weight", {count, width}, weight)) {}

Variable Embedding::forward(const Tensor& ids, const ForwardContext& context) {
  return autograd::embedding(context.tape.use(weight_), ids, padding_);
}

Variable Dropout::forward(const Variable& x, const ForwardContext& context) {
  const float probability = this->probability(context);
  return probability == 0.f ? x : autograd::dropout(x, probability, key(x, context));
}

ops::DropoutKey Dropout::key(const Variable& x, const ForwardContext& context) const {
  ops::DropoutKey key{.seed = context.seed, .layer = layer_, .epoch = context.epoch, .sample_ids = context.sample_ids};
  if (!are_read_rows(x.value().shape(), context.text)) return key;
  key.rows = context.text.read;
  key.sequence = context.text.positions.shape()[1];
  return key;
}

}  // namespace dptrain::nn
