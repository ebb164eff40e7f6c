#include <algorithm>
#include <utility>
#include <vector>

#include "device/parallel_for.h"
#include "ops/conv2d_max_pool_cpu.h"
#include "ops/conv2d_max_pool_kernels.h"
#include "ops/f32_operands.h"
#include "ops/linear_kernels.h"
#include "ops/reorder.h"
#include "ops/sample_groups_cpu.h"

namespace dptrain::ops::cpu {
namespace {

/// Numbers past the last valid one that vectors may access.
constexpr int64_t kVector = 16;

/// The sizes of a convolution and the pool after it.
struct Sizes {
  Sizes(const Shape& x, const Shape& weight, const Shape& y, const Conv2dMaxPoolOptions& options)
      : channels(x[1]), height(x[2]), width(x[3]), outputs(y[1]), maxima_height(y[2]), maxima_width(y[3]) {
    padding = options.convolution.padding, kernel = options.pool.kernel;
    padded_row = (width + 2 * padding) * channels;
    window_rows = weight[2], window_width = weight[3] * channels;
    window_in_vectors = conv2d_max_pool_kernels().width_in_vectors(window_width);
    maxima = maxima_height * maxima_width;
  }
  int64_t image() const { return height * width * channels; }
  int64_t padded_image() const { return (height + 2 * padding) * padded_row + kVector; }
  float* row_of(float* padded, int64_t i) const { return padded + (i + padding) * padded_row + padding * channels; }

  int64_t channels, height, width, outputs, maxima_height, maxima_width;
  int64_t padding, kernel, padded_row, window_rows, window_width, window_in_vectors, maxima;
};

/// The incoming gradients in nhwc, sample by sample.
class Maxima {
 public:
  Maxima(const MaximaGradient& incoming, const Sizes& sizes)
      : gradient_(as_f32(incoming.gradient, Layout::nhwc)), workspace_(incoming.workspace), sizes_(sizes) {}
  int64_t numbers() const { return sizes_.maxima * sizes_.outputs; }

  /// Returns the maxima of one sample; `memory` has room for numbers() floats.
  MaximaGradients of(int64_t sample, float* memory) const {
    const uint8_t* places = workspace_.data<uint8_t>() + sample * numbers();
    conv2d_max_pool_kernels().mask(gradient_.data<float>() + sample * numbers(), places, numbers(), memory);
    return {.height = sizes_.maxima_height,
            .width = sizes_.maxima_width,
            .channels = sizes_.outputs,
            .kernel = sizes_.kernel,
            .gradients = memory,
            .places = places};
  }

 private:
  Tensor gradient_;
  const Tensor& workspace_;
  const Sizes& sizes_;
};

/// Floats that `shares` shares take.
constexpr int64_t numbers_of(int64_t shares) { return shares * static_cast<int64_t>(sizeof(Share) / sizeof(float)); }

/// Hands out a part's workspace. Threads don't allocate memory, because an allocation failure's exception couldn't
/// leave them.
class Workspace {
 public:
  explicit Workspace(float* memory) : next_(memory) {}
  float* numbers(int64_t count) { return std::exchange(next_, next_ + count); }
  Share* shares(int64_t count) { return reinterpret_cast<Share*>(numbers(numbers_of(count))); }
  int32_t* counts(int64_t count) { return reinterpret_cast<int32_t*>(numbers(count)); }

 private:
  float* next_;
};

/// Returns a plain weight [O, C, U, V] as [U, O, V, C], with rows of whole vectors.
Tensor packed_by_row(const Tensor& weight, const Sizes& sizes) {
  const Shape& shape = weight.shape();
  const int64_t of_output = sizes.window_in_vectors, of_row = sizes.outputs * of_output;
  const Tensor to = sample_scratch(weight.device(), shape[2], of_row);
  parallel_for(weight.device(), sizes.outputs, [&](int64_t output) {
    for (int64_t u = 0; u < shape[2]; ++u) {
      float* row = to.data<float>() + u * of_row + output * of_output;
      std::fill_n(row, of_output, 0.F);
      for (int64_t v = 0; v < shape[3]; ++v)
        for (int64_t c = 0; c < shape[1]; ++c)
          *row++ = weight.data<float>()[((output * shape[1] + c) * shape[2] + u) * shape[3] + v];
    }
  });
  return to;
}

}  // namespace

Tensor conv2d_max_pool_backward_data(const TensorForm& x, const Tensor& weight, const MaximaGradient& incoming,
                                     const Conv2dMaxPoolOptions& options) {
  Device& device = x.device;
  const Tensor gradient = Tensor::empty(device, x.shape, {.dtype = x.dtype, .layout = Layout::nhwc});
  if (gradient.elements() == 0) return reorder(gradient, x.layout);
  const Sizes sizes(x.shape, weight.shape(), incoming.gradient.shape(), options);
  const Maxima maxima(incoming, sizes);
  const Tensor computed = f32_for(gradient), by = packed_by_row(as_f32(weight, Layout::plain), sizes);
  const auto& kernels = conv2d_max_pool_kernels();
  const int64_t pixels = sizes.maxima * sizes.kernel * sizes.kernel;
  const int64_t parts = std::clamp<int64_t>(x.shape[0], 1, device.threads());
  const Tensor memory = sample_scratch(
      device, parts, maxima.numbers() + sizes.padded_image() + numbers_of(pixels * sizes.outputs) + pixels);
  parallel_for(device, parts, [&](int64_t part) {
    Workspace room(memory.data<float>() + part * memory.shape()[1]);
    float *of_maxima = room.numbers(maxima.numbers()), *image = room.numbers(sizes.padded_image());
    Share* shares = room.shares(pixels * sizes.outputs);
    int32_t* counts = room.counts(pixels);
    for (int64_t n = part * x.shape[0] / parts; n < (part + 1) * x.shape[0] / parts; ++n) {
      kernels.share_by_pixel(maxima.of(n, of_maxima),
                             {.weight_step = sizes.window_in_vectors, .shares = shares, .counts = counts});
      std::fill_n(image, sizes.padded_image(), 0.F);
      kernels.spread_shares({.height = sizes.maxima_height * sizes.kernel,
                             .width_of_y = sizes.maxima_width * sizes.kernel,
                             .kernel = sizes.kernel,
                             .outputs = sizes.outputs,
                             .shares = shares,
                             .counts = counts,
                             .windows = sizes.window_rows,
                             .width = sizes.window_width,
                             .weights = by.data<float>(),
                             .x = image,
                             .x_row = sizes.padded_row,
                             .x_pixel = sizes.channels});
      const int64_t row = sizes.width * sizes.channels;
      for (int64_t i = 0; i < sizes.height; ++i)
        std::copy_n(sizes.row_of(image, i), row, computed.data<float>() + n * sizes.image() + i * row);
    }
  });
  round_into(computed, gradient);
  return reorder(gradient, x.layout);
}

void conv2d_max_pool_backward_weights(const Tensor& x, const MaximaGradient& incoming,
                                      const Conv2dWeightGradients& gradients, const Conv2dMaxPoolOptions& options) {
  Device& device = x.device();
  const Sizes sizes(x.shape(), gradients.weight.shape(), incoming.gradient.shape(), options);
  const Maxima maxima(incoming, sizes);
  const Tensor images = as_f32(x, Layout::nhwc);
  const auto& kernels = conv2d_max_pool_kernels();
  const int64_t samples = x.shape()[0], outputs = sizes.outputs;
  const int64_t of_output = sizes.window_rows * sizes.window_in_vectors, most_shares = sizes.maxima + kShareMargin;
  // Each thread sums up its part of the samples; the parts are folded in order.
  const int64_t parts = std::clamp<int64_t>(samples, 1, device.threads());
  const int64_t row_shares = sizes.kernel * outputs * (sizes.maxima_width + kShareMargin);
  const int64_t summed = outputs * of_output + maxima.numbers() + sizes.padded_image();
  const Tensor memory = sample_scratch(
      device, parts, summed + numbers_of(outputs * most_shares + row_shares) + (1 + sizes.kernel) * outputs);
  std::vector<double> bias(static_cast<size_t>(parts * outputs));
  parallel_for(device, parts, [&](int64_t part) {
    Workspace room(memory.data<float>() + part * memory.shape()[1]);
    float *sums = room.numbers(outputs * of_output), *of_maxima = room.numbers(maxima.numbers());
    float* image = room.numbers(sizes.padded_image());
    std::fill_n(sums, summed, 0.F);
    const SharesOfOutputs shares{.x_row = sizes.padded_row,
                                 .x_pixel = sizes.channels,
                                 .most_shares = most_shares,
                                 .shares = room.shares(outputs * most_shares),
                                 .counts = room.counts(outputs),
                                 .row_shares = room.shares(row_shares),
                                 .row_counts = room.counts(sizes.kernel * outputs)};
    for (int64_t n = part * samples / parts; n < (part + 1) * samples / parts; ++n) {
      const MaximaGradients of_sample = maxima.of(n, of_maxima);
      if (gradients.bias.defined())
        linear_kernels().add_column_sums(of_maxima, sizes.maxima, outputs, outputs, bias.data() + part * outputs);
      kernels.share_by_output(of_sample, shares);
      const int64_t row = sizes.width * sizes.channels;
      for (int64_t i = 0; i < sizes.height; ++i)
        std::copy_n(images.data<float>() + n * sizes.image() + i * row, row, sizes.row_of(image, i));
      kernels.add_shares({.outputs = outputs,
                          .most_shares = most_shares,
                          .shares = shares.shares,
                          .counts = shares.counts,
                          .windows = sizes.window_rows,
                          .width = sizes.window_width,
                          .x = image,
                          .x_row = sizes.padded_row,
                          .to = sums});
    }
  });
  fold_weight_sums({.memory = memory, .bias = bias, .of_output = of_output, .of_row = sizes.window_in_vectors},
                   gradients);
}

}  // namespace dptrain::ops::cpu
