#include "ops/conv2d_max_pool_cpu.h"

#include "device/parallel_for.h"
#include "ops/conv2d_cpu.h"
#include "ops/f32_operands.h"
#include "ops/max_pool_place.h"
#include "ops/sample_groups_cpu.h"

namespace dptrain::ops::cpu {

bool convolves_and_pools(const TensorForm& x, const Shape& weight, const Conv2dMaxPoolOptions& options) {
  const auto& [convolution, pool] = options;
  const auto pixels = [&](int dimension) {
    return x.shape[dimension] + 2 * convolution.padding - weight[dimension] + 1;
  };
  return !convolution.relu && pool.padding == 0 && !pool.ceil && pool.kernel > 1 && pool.kernel == pool.stride &&
         pool.kernel <= kLargestWindowOfPlaces && pixels(2) >= pool.kernel && pixels(3) >= pool.kernel &&
         leaves_maxima_to_samples(x, weight, convolution);
}

Pool2dResult conv2d_max_pool_forward(const Tensor& x, const Tensor& weight, const Tensor& bias, const Shape& output,
                                     const Conv2dMaxPoolOptions& options) {
  Device& device = x.device();
  Pool2dResult result{.y = Tensor::empty(device, output, {.dtype = x.dtype(), .layout = Layout::nhwc}),
                      .workspace = Tensor::empty(device, output, {.dtype = DType::u8, .layout = Layout::nhwc})};
  if (result.y.elements() == 0) return result;
  const Tensor computed = f32_for(result.y), from = as_f32(x, Layout::nhwc),
               by = packed_by_pixel(as_f32(weight, Layout::plain), false);
  const Tensor added = bias.defined() ? as_f32(bias, bias.layout()) : bias;
  const SampleGroups groups(device, output[0]);
  const int64_t channels = x.shape()[1], outputs = output[1], padding = options.convolution.padding;
  const int64_t kernel = options.pool.kernel, rows_of_x = x.shape()[2], row_of_x = x.shape()[3] * channels;
  const int64_t padded_row = row_of_x + 2 * padding * channels, row_of_y = output[3] * outputs;
  // Room for the padded images, the rows of one window of the pool, a row of maxima, and their places, of which four
  // fit in a number.
  const int64_t x_numbers = (rows_of_x + 2 * padding) * padded_row * groups.lanes;
  const int64_t row = kernel * row_of_y * groups.lanes, maxima = row_of_y * groups.lanes;
  const Tensor memory =
      sample_scratch(device, std::min<int64_t>(groups.count, device.threads()), x_numbers + kernel * row + 2 * maxima);
  parallel_parts(device, groups.count, 1, [&](int64_t part, int64_t begin, int64_t end) {
    float *images = memory.data<float>() + part * memory.shape()[1], *rows = images + x_numbers;
    float* y = rows + kernel * row;
    uint8_t* places = reinterpret_cast<uint8_t*>(y + maxima);
    if (padding > 0) std::fill_n(images, x_numbers, 0.F);
    for (int64_t group = begin; group < end; ++group) {
      const float* samples = from.data<float>() + groups.first(group) * rows_of_x * row_of_x;
      for (int64_t i = 0; i < (padding > 0 ? rows_of_x : 1); ++i)
        groups.kernels.gather(samples + i * row_of_x, rows_of_x * row_of_x, groups.in(group),
                              padding > 0 ? row_of_x : rows_of_x * row_of_x, groups.vectors,
                              images + ((i + padding) * padded_row + padding * channels) * groups.lanes);
      for (int64_t i = 0; i < output[2]; ++i) {
        for (int64_t u = 0; u < kernel; ++u)
          groups.kernels.multiply({.pixels = kernel * output[3],
                                   .rows = outputs,
                                   .segments = weight.shape()[2],
                                   .depth = weight.shape()[3] * channels,
                                   .weights = by.data<float>(),
                                   .weight_row = by.shape()[1],
                                   .weight_segment = weight.shape()[3] * channels,
                                   .images = images + (i * kernel + u) * padded_row * groups.lanes,
                                   .image_pixel = channels * groups.lanes,
                                   .image_segment = padded_row * groups.lanes,
                                   .bias = added.defined() ? added.data<float>() : nullptr,
                                   .y = rows + u * row},
                                  groups.vectors);
        groups.kernels.max_pool({.pixels = output[3],
                                 .kernel = kernel,
                                 .channels = outputs,
                                 .x = rows,
                                 .x_row = row,
                                 .relu = options.pool.relu,
                                 .y = y,
                                 .places = places},
                                groups.vectors);
        const int64_t to = (groups.first(group) * output[2] + i) * row_of_y, of_sample = output[2] * row_of_y;
        groups.kernels.scatter(y, groups.in(group), row_of_y, groups.vectors, computed.data<float>() + to, of_sample);
        groups.kernels.scatter_places(places, groups.in(group), row_of_y, groups.vectors,
                                      result.workspace.data<uint8_t>() + to, of_sample);
      }
    }
  });
  round_into(computed, result.y);
  return result;
}

}  // namespace dptrain::ops::cpu
