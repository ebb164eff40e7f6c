#include "ops/batch_norm_cpu.h"

#include <cmath>
#include <vector>

#include "ops/batch_norm_chunks_cpu.h"

namespace dptrain::ops::cpu {

BatchNormTraining batch_norm_training(const BatchNormInputs& in, const BatchNormOptions& options) {
  const std::vector<ChannelMoments> moments = moments_of(in.x);
  BatchNormTraining result{.y = {},
                           .mean = Tensor::empty(in.x.device(), in.gamma.shape()),
                           .inverse_deviation = Tensor::empty(in.x.device(), in.gamma.shape())};
  const double count = Chunks(in.x).values_per_channel();
  for (size_t c = 0; c < moments.size(); ++c)
    finish_statistics(in, result, static_cast<int64_t>(c), moments[c], count, options);
  result.y = normalized(in, result, options);
  return result;
}

BatchNormTraining batch_norm_by_running(const BatchNormInputs& in, const BatchNormOptions& options) {
  BatchNormTraining result{
      .y = {}, .mean = in.running_mean, .inverse_deviation = Tensor::empty(in.x.device(), in.gamma.shape())};
  float* inverse_deviation = result.inverse_deviation.data<float>();
  const float* variance = in.running_variance.data<float>();
  for (int64_t c = 0; c < in.gamma.elements(); ++c)
    inverse_deviation[c] = 1.f / std::sqrt(variance[c] + options.epsilon);
  result.y = normalized(in, result, options);
  return result;
}

Tensor batch_norm_again(const BatchNormInputs& in, const BatchNormTraining& forward, const BatchNormOptions& options) {
  return normalized(in, forward, options);
}

BatchNormGradients batch_norm_backward(const BatchNormInputs& in, const BatchNormTraining& forward,
                                       const Tensor& output_gradient, const BatchNormSinks& sinks,
                                       const BatchNormOptions& options) {
  BatchNormBackward backward(in, forward, output_gradient, options);
  const std::vector<ChannelGradients> sums = backward.sums();
  for (int64_t c = 0; c < backward.channels(); ++c) {
    const ChannelGradients& of_channel = sums[static_cast<size_t>(c)];
    backward.finish_parameters(sinks, c, of_channel);
    if (!options.constant_statistics) backward.center(c, of_channel, backward.values_per_channel());
  }
  return backward.inputs();
}

}  // namespace dptrain::ops::cpu
