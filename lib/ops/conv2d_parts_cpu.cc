#include "ops/conv2d_parts_cpu.h"

#include "ops/add.h"
#include "ops/channel_parts_cpu.h"
#include "ops/conv2d_cpu.h"
#include "ops/conv2d_tiles_cpu.h"
#include "ops/f32_operands.h"
#include "ops/reorder.h"

namespace dptrain::ops::cpu {
namespace {

/// Pairs of an input and an output channel whose transformed weights are in workspace at once: 144 bytes a pair, for
/// the gradient as much again for each thread.
constexpr int64_t kMostPairs = 512 * 256, kMostPairsOfGradient = 512 * 128;

/// Empty where the convolution is best computed as a whole.
std::vector<ChannelRange> parts_of(const Shape& x, const Shape& weight, int64_t most_pairs,
                                   const Conv2dOptions& options) {
  if (weight[0] * weight[1] <= most_pairs || !computes_winograd(x, weight, options)) return {};
  return channel_parts(weight[0], layout_block(conv2d_output_layout(weight[1], weight[0])), most_pairs / weight[1]);
}

}  // namespace

Tensor conv2d_forward_in_parts(const Tensor& x, const Tensor& weight, const Tensor& bias, const Shape& output,
                               const Conv2dOptions& options) {
  if (convolves_by_tiles(x.dtype(), options)) return conv2d_forward_by_tiles(x, weight, bias, output, options);
  const auto parts = parts_of(x.shape(), weight.shape(), kMostPairs, options);
  if (parts.empty()) return cpu::conv2d_forward(x, weight, bias, output, options);
  const Layout layout = conv2d_output_layout(weight.shape()[1], weight.shape()[0]);
  const Tensor source = as_f32(x, layout),
               y = Tensor::empty(x.device(), output, {.dtype = x.dtype(), .layout = layout});
  const TensorOptions like_y{.dtype = x.dtype(), .layout = layout, .purpose = MemoryPurpose::workspace};
  for (const ChannelRange& part : parts)
    put_channels(converted(cpu::conv2d_forward(source, weight.samples(part.begin, part.end),
                                               bias.defined() ? bias.samples(part.begin, part.end) : bias,
                                               {output[0], part.count(), output[2], output[3]}, options),
                           like_y),
                 part, y);
  return y;
}

Tensor conv2d_backward_data_in_parts(const TensorForm& x, const Tensor& weight, const Tensor& output_gradient,
                                     const Conv2dOptions& options) {
  if (convolves_by_tiles(x.dtype, options)) return conv2d_backward_data_by_tiles(x, weight, output_gradient, options);
  const auto parts = parts_of(x.shape, weight.shape(), kMostPairs, options);
  if (parts.empty()) return cpu::conv2d_backward_data(x, weight, output_gradient, options);
  const Tensor incoming = as_f32(output_gradient, conv2d_output_layout(weight.shape()[1], weight.shape()[0]));
  TensorForm as_summed = x;
  as_summed.dtype = DType::f32;
  Tensor sum;
  for (const ChannelRange& part : parts) {
    const Tensor share = cpu::conv2d_backward_data(as_summed, weight.samples(part.begin, part.end),
                                                   channels_of(incoming, part), options);
    if (sum.defined())
      add_into(sum, share);
    else
      sum = share;
  }
  return converted(sum, {.dtype = x.dtype, .layout = x.layout});
}

void conv2d_backward_weights_in_parts(const Tensor& x, const Tensor& output_gradient,
                                      const Conv2dWeightGradients& gradients, const Conv2dOptions& options) {
  if (convolves_by_tiles(x.dtype(), options))
    return conv2d_backward_weights_by_tiles(x, output_gradient, gradients, options);
  const Shape& weight = gradients.weight.shape();
  const auto parts = parts_of(x.shape(), weight, kMostPairsOfGradient, options);
  if (parts.empty()) return cpu::conv2d_backward_weights(x, output_gradient, gradients, options);
  const Layout layout = conv2d_output_layout(weight[1], weight[0]);
  const Tensor source = as_f32(x, layout), incoming = as_f32(output_gradient, layout);
  for (const ChannelRange& part : parts) {
    Conv2dWeightGradients of_part = gradients;
    of_part.weight = gradients.weight.samples(part.begin, part.end);
    if (gradients.bias.defined()) of_part.bias = gradients.bias.samples(part.begin, part.end);
    cpu::conv2d_backward_weights(source, channels_of(incoming, part), of_part, options);
  }
}

}  // namespace dptrain::ops::cpu
