#include "ops/conv2d_cpu.h"

#include <algorithm>

#include "device/cpu_bf16.h"
#include "device/cpu_isa.h"
#include "ops/conv2d_direct_cpu.h"
#include "ops/conv2d_samples_cpu.h"
#include "ops/conv2d_tiles_cpu.h"
#include "ops/conv2d_winograd_cpu.h"
#include "ops/dispatch.h"
#include "ops/image_columns_cpu.h"

namespace dptrain::ops::cpu {
namespace {

Layout blocked_images() { return cpu_isa() == CpuIsa::avx512 ? Layout::nchw16c : Layout::nchw8c; }

/// Whether padding `channels` to whole blocks would waste over a quarter of the lanes.
bool wasteful(int64_t channels, int64_t block) {
  const int64_t padded = (channels + block - 1) / block * block;
  return 4 * (padded - channels) > padded;
}

enum class Way { tiles, winograd, samples, direct };
constexpr const char* kWayNames[] = {"tiles", "winograd", "samples", "direct"};

/// Whether the channels fill tiles of AVX-512's pairs and are so few that Winograd's transforms outweigh its savings:
/// docs/results/convolution-speed.md.
bool fills_tiles(int64_t in_channels, int64_t out_channels) {
  constexpr int64_t kTile = 32, kShort = 64;
  return in_channels % kTile == 0 && out_channels % kTile == 0 && std::max(in_channels, out_channels) <= kShort;
}

/// Whether tiles are faster than everything else. AMX's tiles always are. AVX-512 computes twice as many products with
/// pairs of bf16 as with f32. That gains less than Winograd's algorithm with more than a few channels, and less than
/// samples in lanes.
bool tiles_are_fastest(DType dtype, const Shape& weight, const Conv2dOptions& options) {
  return convolves_by_tiles(dtype, options) && (cpu_bf16_unit() == Bf16Unit::amx || fills_tiles(weight[1], weight[0]));
}

/// The rule that chooses how to compute a convolution.
Way rule(DType dtype, const Shape& x, const Shape& weight, const Conv2dOptions& options) {
  if (tiles_are_fastest(dtype, weight, options)) return Way::tiles;
  if (computes_winograd(weight, options)) return Way::winograd;
  if (convolves_by_samples(x, weight, options)) return Way::samples;
  return convolves_by_tiles(dtype, options) ? Way::tiles : Way::direct;
}

/// Returns and logs the way of a convolution that begins now.
Way way_of(const TensorForm& x, const Shape& weight, const Conv2dOptions& options) {
  const Way way = rule(x.dtype, x.shape, weight, options);
  log_way(x.device, kWayNames[static_cast<size_t>(way)]);
  return way;
}

}  // namespace

bool leaves_maxima_to_samples(const TensorForm& x, const Shape& weight, const Conv2dOptions& options) {
  const bool by_tiles = tiles_are_fastest(x.dtype, weight, options) && !fits_columns(weight);
  return !by_tiles && !computes_winograd(weight, options) && convolves_by_samples(x.shape, weight, options);
}

Layout conv2d_output_layout(const Shape& weight) {
  const Layout blocked = blocked_images();
  const int64_t out = weight[0], in = weight[1];
  // Winograd's windows and single pixels are computed in blocks of either width. Other convolutions are left to samples
  // in lanes if they wouldn't fill AVX-512's sixteen channels. This holds on AVX2 as well, where oneDNN takes three
  // times as long in blocks.
  const int64_t block = fills_winograd(weight) || weight[2] * weight[3] == 1 ? layout_block(blocked) : 16;
  const bool narrow_input = in > kFewChannels && wasteful(in, block);
  return narrow_input || wasteful(out, block) ? Layout::nhwc : blocked;
}

Layout conv2d_weight_layout(const Shape& weight) {
  const Layout images = conv2d_output_layout(weight);
  if (weight[1] <= kFewChannels || images == Layout::nhwc) return Layout::plain;
  return images == Layout::nchw16c ? Layout::oihw16i16o : Layout::oihw8i8o;
}

Tensor conv2d_forward(const Tensor& x, const Tensor& weight, const Tensor& bias, const Shape& output,
                      const Conv2dOptions& options) {
  switch (way_of(x, weight.shape(), options)) {
    case Way::tiles: return conv2d_forward_by_tiles(x, weight, bias, output, options);
    case Way::winograd: return conv2d_forward_by_winograd(x, weight, bias, output, options);
    case Way::samples: return conv2d_forward_by_samples(x, weight, bias, output, options);
    case Way::direct: break;
  }
  return conv2d_forward_directly(x, weight, bias, output, options);
}

Tensor conv2d_backward_data(const TensorForm& x, const Tensor& weight, const Tensor& output_gradient,
                            const Conv2dOptions& options) {
  switch (way_of(x, weight.shape(), options)) {
    case Way::tiles: return conv2d_backward_data_by_tiles(x, weight, output_gradient, options);
    case Way::winograd: return conv2d_backward_data_by_winograd(x, weight, output_gradient, options);
    case Way::samples: return conv2d_backward_data_by_samples(x, weight, output_gradient, options);
    case Way::direct: break;
  }
  return conv2d_backward_data_directly(x, weight, output_gradient, options);
}

void conv2d_backward_weights(const Tensor& x, const Tensor& output_gradient, const Conv2dWeightGradients& gradients,
                             const Conv2dOptions& options) {
  switch (way_of(x, gradients.weight.shape(), options)) {
    case Way::tiles: return conv2d_backward_weights_by_tiles(x, output_gradient, gradients, options);
    case Way::winograd: return conv2d_backward_weights_by_winograd(x, output_gradient, gradients, options);
    case Way::samples: return conv2d_backward_weights_by_samples(x, output_gradient, gradients, options);
    case Way::direct: break;
  }
  conv2d_backward_weights_directly(x, output_gradient, gradients, options);
}

}  // namespace dptrain::ops::cpu
