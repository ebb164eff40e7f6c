#include "ops/batch_norm_parts_cpu.h"

#include <vector>

#include "ops/batch_norm_chunks_cpu.h"

namespace dptrain::ops::cpu {
namespace {

/// Returns the number of values of a channel on all devices, from the sum of BatchNormPart::sums.
double values_of_all(const Tensor& x, const Tensor& means) {
  return double{means.data<float>()[x.shape()[1]]} * static_cast<double>(x.shape()[2] * x.shape()[3]);
}

/// Returns the mean of a channel's values on all devices; zero if there are none.
float mean_of_all(const Tensor& means, int64_t c) {
  const float* sums = means.data<float>();
  const float samples = sums[means.elements() - 1];
  return samples > 0 ? sums[c] / samples : 0.f;
}

}  // namespace

BatchNormPart batch_norm_part(const Tensor& x) {
  Device& device = x.device();
  const std::vector<ChannelMoments> moments = moments_of(x);
  const auto channels = static_cast<int64_t>(moments.size());
  BatchNormPart part{.mean = Tensor::empty(device, {channels}),
                     .squares = Tensor::empty(device, {channels}),
                     .sums = Tensor::empty(device, {channels + 1})};
  const auto samples = static_cast<double>(x.shape()[0]);
  for (int64_t c = 0; c < channels; ++c) {
    const auto& [mean, squares] = moments[static_cast<size_t>(c)];
    part.mean.data<float>()[c] = static_cast<float>(mean);
    part.squares.data<float>()[c] = static_cast<float>(squares);
    part.sums.data<float>()[c] = static_cast<float>(samples * mean);
  }
  part.sums.data<float>()[channels] = static_cast<float>(samples);
  return part;
}

Tensor batch_norm_part_squares(const Tensor& x, const BatchNormPart& part) {
  const int64_t channels = x.shape()[1];
  Tensor squares = Tensor::empty(x.device(), {channels});
  const auto count = static_cast<double>(x.shape()[0] * x.shape()[2] * x.shape()[3]);
  for (int64_t c = 0; c < channels; ++c) {
    const double distance = double{part.mean.data<float>()[c]} - mean_of_all(part.sums, c);
    squares.data<float>()[c] = static_cast<float>(part.squares.data<float>()[c] + count * distance * distance);
  }
  return squares;
}

BatchNormTraining batch_norm_by_sums(const BatchNormInputs& in, const BatchNormSums& sums,
                                     const BatchNormOptions& options) {
  const int64_t channels = in.x.shape()[1];
  BatchNormTraining result{.y = {},
                           .mean = Tensor::empty(in.x.device(), {channels}),
                           .inverse_deviation = Tensor::empty(in.x.device(), {channels})};
  const double count = values_of_all(in.x, sums.means);
  for (int64_t c = 0; c < channels; ++c)
    finish_statistics(in, result, c, {.mean = mean_of_all(sums.means, c), .squares = sums.squares.data<float>()[c]},
                      count, options);
  result.y = normalized(in, result, options);
  return result;
}

Tensor batch_norm_gradient_sums(const BatchNormInputs& in, const BatchNormTraining& forward,
                                const Tensor& output_gradient, const BatchNormSinks& sinks,
                                const BatchNormOptions& options) {
  const BatchNormBackward backward(in, forward, output_gradient, options);
  const std::vector<ChannelGradients> own = backward.sums();
  const int64_t channels = backward.channels();
  Tensor sums = Tensor::empty(in.x.device(), {2 * channels});
  for (int64_t c = 0; c < channels; ++c) {
    const ChannelGradients& of_channel = own[static_cast<size_t>(c)];
    backward.finish_parameters(sinks, c, of_channel);
    sums.data<float>()[c] = static_cast<float>(of_channel.sum);
    sums.data<float>()[channels + c] = static_cast<float>(of_channel.dot);
  }
  return sums;
}

BatchNormGradients batch_norm_backward_by_sums(const BatchNormInputs& in, const BatchNormTraining& forward,
                                               const BatchNormPartGradient& gradient, const BatchNormOptions& options) {
  BatchNormBackward backward(in, forward, gradient.output_gradient, options);
  const int64_t channels = backward.channels();
  const float* sums = gradient.sums.data<float>();
  const double count = values_of_all(in.x, gradient.means);
  for (int64_t c = 0; c < channels && count > 0; ++c)
    backward.center(c, {.sum = sums[c], .dot = sums[channels + c]}, count);
  return backward.inputs();
}

}  // namespace dptrain::ops::cpu
