#include "ops/conv2d_samples_cpu.h"

#include <algorithm>

#include "device/cpu_isa.h"
#include "device/parallel_for.h"
#include "ops/conv2d_cpu.h"
#include "ops/f32_operands.h"
#include "ops/reorder.h"
#include "ops/sample_groups_cpu.h"

namespace dptrain::ops::cpu {
Tensor packed_by_pixel(const Tensor& weight, bool turned) {
  const Shape& shape = weight.shape();
  const int64_t rows = shape[turned ? 1 : 0], inner = shape[turned ? 0 : 1], height = shape[2], width = shape[3];
  const Tensor to = sample_scratch(weight.device(), rows, height * width * inner);
  const int64_t row_step = (turned ? 1 : shape[1]) * height * width,
                inner_step = (turned ? shape[1] : 1) * height * width;
  parallel_for(weight.device(), rows, [&](int64_t row) {
    const float* from = weight.data<float>() + row * row_step;
    float* next = to.data<float>() + row * height * width * inner;
    for (int64_t u = 0; u < height; ++u)
      for (int64_t v = 0; v < width; ++v)
        for (int64_t i = 0; i < inner; ++i) *next++ = from[i * inner_step + u * width + (turned ? width - 1 - v : v)];
  });
  return to;
}

bool convolves_by_samples(const Shape& x, const Shape& weight, const Conv2dOptions& options) {
  // Most numbers in a sample's images, so that a group of samples (nearly) stays in the second-level cache.
  constexpr int64_t kMostNumbers = 16 * 1024;
  const int64_t padded = (x[2] + 2 * options.padding) * (x[3] + 2 * options.padding);
  return cpu_isa() != CpuIsa::baseline && options.algorithm != ConvolutionAlgorithm::direct && options.stride == 1 &&
         weight[2] * weight[3] > 1 && padded * std::max(x[1], weight[0]) <= kMostNumbers &&
         conv2d_output_layout(weight) == Layout::nhwc;
}

Tensor conv2d_forward_by_samples(const Tensor& x, const Tensor& weight, const Tensor& bias, const Shape& output,
                                 const Conv2dOptions& options) {
  Device& device = x.device();
  Tensor y = Tensor::empty(device, output, {.dtype = x.dtype(), .layout = Layout::nhwc});
  if (y.elements() == 0) return y;
  const Tensor computed = f32_for(y), from = as_f32(x, Layout::nhwc),
               by = packed_by_pixel(as_f32(weight, Layout::plain), false);
  const Tensor added = bias.defined() ? as_f32(bias, bias.layout()) : bias;
  const SampleGroups groups(device, output[0]);
  const int64_t channels = x.shape()[1], padding = options.padding;
  const int64_t row_of_x = x.shape()[3] * channels, rows_of_x = x.shape()[2];
  const int64_t padded_row = row_of_x + 2 * padding * channels, row_of_y = output[3] * output[1];
  const int64_t x_numbers = (rows_of_x + 2 * padding) * padded_row * groups.lanes, y_numbers = row_of_y * groups.lanes;
  const Tensor memory =
      sample_scratch(device, std::min<int64_t>(groups.count, device.threads()), x_numbers + y_numbers);
  parallel_parts(device, groups.count, 1, [&](int64_t part, int64_t begin, int64_t end) {
    float *images = memory.data<float>() + part * (x_numbers + y_numbers), *row = images + x_numbers;
    if (padding > 0) std::fill_n(images, x_numbers, 0.F);
    for (int64_t group = begin; group < end; ++group) {
      const float* samples = from.data<float>() + groups.first(group) * rows_of_x * row_of_x;
      for (int64_t i = 0; i < (padding > 0 ? rows_of_x : 1); ++i)
        groups.kernels.gather(samples + i * row_of_x, rows_of_x * row_of_x, groups.in(group),
                              padding > 0 ? row_of_x : rows_of_x * row_of_x, groups.vectors,
                              images + ((i + padding) * padded_row + padding * channels) * groups.lanes);
      for (int64_t i = 0; i < output[2]; ++i) {
        groups.kernels.multiply({.pixels = output[3],
                                 .rows = output[1],
                                 .segments = weight.shape()[2],
                                 .depth = weight.shape()[3] * channels,
                                 .weights = by.data<float>(),
                                 .weight_row = by.shape()[1],
                                 .weight_segment = weight.shape()[3] * channels,
                                 .images = images + i * padded_row * groups.lanes,
                                 .image_pixel = channels * groups.lanes,
                                 .image_segment = padded_row * groups.lanes,
                                 .bias = added.defined() ? added.data<float>() : nullptr,
                                 .relu = options.relu,
                                 .y = row},
                                groups.vectors);
        groups.kernels.scatter(row, groups.in(group), row_of_y, groups.vectors,
                               computed.data<float>() + (groups.first(group) * output[2] + i) * row_of_y,
                               output[2] * row_of_y);
      }
    }
  });
  round_into(computed, y);
  return y;
}

Tensor conv2d_backward_data_by_samples(const TensorForm& x, const Tensor& weight, const Tensor& output_gradient,
                                       const Conv2dOptions& options) {
  Device& device = x.device;
  Tensor gradient = Tensor::empty(device, x.shape, {.dtype = x.dtype, .layout = Layout::nhwc});
  if (gradient.elements() == 0) return reorder(gradient, x.layout);
  const Tensor computed = f32_for(gradient), from = as_f32(output_gradient, Layout::nhwc),
               by = packed_by_pixel(as_f32(weight, Layout::plain), true);
  const SampleGroups groups(device, x.shape[0]);
  const Shape &output = output_gradient.shape(), &window = weight.shape();
  const int64_t channels = x.shape[1], outputs = output[1], row_of_x = x.shape[3] * channels;
  const int64_t row_of_y = output[3] * outputs, y_numbers = output[2] * row_of_y * groups.lanes;
  const int64_t x_numbers = row_of_x * groups.lanes;
  const Tensor memory =
      sample_scratch(device, std::min<int64_t>(groups.count, device.threads()), x_numbers + y_numbers);
  parallel_parts(device, groups.count, 1, [&](int64_t part, int64_t begin, int64_t end) {
    float *images = memory.data<float>() + part * (x_numbers + y_numbers), *row = images + y_numbers;
    for (int64_t group = begin; group < end; ++group) {
      groups.kernels.gather(from.data<float>() + groups.first(group) * output[2] * row_of_y, output[2] * row_of_y,
                            groups.in(group), output[2] * row_of_y, groups.vectors, images);
      for (int64_t i = 0; i < x.shape[2]; ++i) {
        // The rows of y whose windows reach row i of x, from the last to the first.
        const int64_t last = std::min(output[2] - 1, i + options.padding);
        const int64_t first = std::max<int64_t>(0, i + options.padding - window[2] + 1);
        for (int64_t j = 0; j < x.shape[3];) {
          const int64_t right = j + options.padding, left = right - window[3] + 1;
          const int64_t from_column = std::max<int64_t>(0, left), to_column = std::min(output[3] - 1, right);
          // Neighboring pixels that the full number of windows reaches are computed in one run.
          const bool whole = from_column == left && to_column == right;
          const int64_t pixels = whole ? std::min(x.shape[3] - j, output[3] - right) : 1;
          groups.kernels.multiply(
              {.pixels = pixels,
               .rows = channels,
               .segments = std::max<int64_t>(0, last - first + 1),
               .depth = std::max<int64_t>(0, to_column - from_column + 1) * outputs,
               .weights = by.data<float>() + ((i + options.padding - last) * window[3] + from_column - left) * outputs,
               .weight_row = by.shape()[1],
               .weight_segment = window[3] * outputs,
               .images = images + (last * row_of_y + from_column * outputs) * groups.lanes,
               .image_pixel = outputs * groups.lanes,
               .image_segment = -row_of_y * groups.lanes,
               .y = row + j * channels * groups.lanes},
              groups.vectors);
          j += pixels;
        }
        groups.kernels.scatter(row, groups.in(group), row_of_x, groups.vectors,
                               computed.data<float>() + (groups.first(group) * x.shape[2] + i) * row_of_x,
                               x.shape[2] * row_of_x);
      }
    }
  });
  round_into(computed, gradient);
  return reorder(gradient, x.layout);
}

}  // namespace dptrain::ops::cpu
