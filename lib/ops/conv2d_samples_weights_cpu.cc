#include <algorithm>
#include <vector>

#include "device/parallel_for.h"
#include "ops/conv2d_samples_cpu.h"
#include "ops/f32_operands.h"
#include "ops/linear_kernels.h"
#include "ops/reorder.h"
#include "ops/sample_groups_cpu.h"

namespace dptrain::ops::cpu {
namespace {

/// The windows of one sample in the form that WindowSums reads. These are rows of the image with its padding. If a
/// window's rows are short compared with a vector, they are whole windows, copied one after the other.
class Windows {
 public:
  Windows(const Shape& x, const Shape& y, const Shape& weight, int64_t padding)
      : x_(x), y_(y), weight_(weight), padding_(padding), lanes_(sample_kernels().lanes) {
    row_ = weight[3] * x[1];
    gathered_ = row_ < lanes_;
    padded_row_ = (x[3] + 2 * padding) * x[1];
    vectors_ = (width() + lanes_ - 1) / lanes_;
  }
  int64_t rows() const { return gathered_ ? 1 : weight_[2]; }
  int64_t width() const { return gathered_ ? weight_[2] * row_ : row_; }
  int64_t width_in_vectors() const { return vectors_ * lanes_; }
  /// Numbers of memory that `sums` needs; the last vectors are read and written whole.
  int64_t image_numbers() const { return (x_[2] + 2 * padding_) * padded_row_ + lanes_; }
  int64_t numbers() const { return image_numbers() + (gathered_ ? y_[2] * y_[3] * width_in_vectors() + lanes_ : 0); }

  /// Returns the WindowSums of a sample, in nhwc. `memory` must be zero wherever nothing was written before.
  WindowSums sums(const float* image, const float* gradient, float* memory, float* to) const {
    for (int64_t i = 0; i < x_[2]; ++i)
      std::copy_n(image + i * x_[3] * x_[1], x_[3] * x_[1], memory + (i + padding_) * padded_row_ + padding_ * x_[1]);
    WindowSums sums{.height = y_[2],
                    .width_of_y = y_[3],
                    .outputs = y_[1],
                    .windows = rows(),
                    .width = width(),
                    .x = memory,
                    .x_row = padded_row_,
                    .x_pixel = x_[1],
                    .x_window = padded_row_,
                    .y = gradient,
                    .to = to};
    if (!gathered_) return sums;
    float* next = memory + image_numbers();
    sums.x = next;
    sums.x_pixel = width_in_vectors();
    sums.x_row = y_[3] * sums.x_pixel;
    for (int64_t i = 0; i < y_[2]; ++i, next += sums.x_row)
      sample_kernels().copy_windows({.pixels = y_[3],
                                     .windows = weight_[2],
                                     .width = row_,
                                     .x = memory + i * padded_row_,
                                     .x_pixel = x_[1],
                                     .x_window = padded_row_,
                                     .to = next,
                                     .to_pixel = sums.x_pixel});
    return sums;
  }

 private:
  const Shape &x_, &y_, &weight_;
  int64_t padding_, lanes_;
  int64_t row_, padded_row_, vectors_;
  bool gathered_;
};

}  // namespace

void fold_weight_sums(const WeightSums& sums, const Conv2dWeightGradients& gradients) {
  const Tensor& weight = gradients.weight;
  Device& device = weight.device();
  const Tensor target = weight.layout() == Layout::plain
                            ? weight
                            : Tensor::empty(device, weight.shape(), {.purpose = MemoryPurpose::workspace});
  if (target.layout() != weight.layout() && gradients.accumulate_weight) reorder_into(weight, target);
  const Shape& window = weight.shape();
  const int64_t parts = sums.memory.shape()[0], of_part = sums.memory.shape()[1];
  const int64_t outputs = window[0], channels = window[1], of_window = window[2] * window[3];
  parallel_for(device, outputs, [&](int64_t output) {
    float* to = target.data<float>() + output * channels * of_window;
    for (int64_t u = 0; u < window[2]; ++u)
      for (int64_t i = 0; i < window[3] * channels; ++i) {
        const float* at = sums.memory.data<float>() + output * sums.of_output + u * sums.of_row + i;
        float sum = 0;
        for (int64_t part = 0; part < parts; ++part) sum += at[part * of_part];
        float& number = to[i % channels * of_window + u * window[3] + i / channels];
        number = gradients.accumulate_weight ? number + sum : sum;
      }
  });
  if (target.layout() != weight.layout()) reorder_into(target, weight);
  if (!gradients.bias.defined() || !device.computes()) return;
  float* to = gradients.bias.data<float>();
  for (int64_t c = 0; c < outputs; ++c) {
    double sum = gradients.accumulate_bias ? to[c] : 0;
    for (int64_t part = 0; part < parts; ++part) sum += sums.bias[static_cast<size_t>(part * outputs + c)];
    to[c] = static_cast<float>(sum);
  }
}

void conv2d_backward_weights_by_samples(const Tensor& x, const Tensor& output_gradient,
                                        const Conv2dWeightGradients& gradients, const Conv2dOptions& options) {
  Device& device = x.device();
  const Tensor images = as_f32(x, Layout::nhwc), incoming = as_f32(output_gradient, Layout::nhwc);
  const Shape &y = output_gradient.shape(), &window = gradients.weight.shape();
  const Windows windows(x.shape(), y, window, options.padding);
  const int64_t outputs = y[1], pixels = y[2] * y[3], samples = y[0];
  const int64_t of_output = windows.rows() * windows.width_in_vectors();
  // Each thread sums up its part of the samples; the parts are folded in order.
  const int64_t parts = std::clamp<int64_t>(samples, 1, device.threads());
  const Tensor memory =
      Tensor::empty(device, {parts, outputs * of_output + windows.numbers()}, {.purpose = MemoryPurpose::workspace});
  std::vector<double> bias(static_cast<size_t>(parts * outputs));
  parallel_for(device, parts, [&](int64_t part) {
    float *sums = memory.data<float>() + part * memory.shape()[1], *room = sums + outputs * of_output;
    std::fill_n(sums, memory.shape()[1], 0.F);
    for (int64_t n = part * samples / parts; n < (part + 1) * samples / parts; ++n) {
      const float* gradient = incoming.data<float>() + n * pixels * outputs;
      sample_kernels().add_windows(
          windows.sums(images.data<float>() + n * x.shape()[1] * x.shape()[2] * x.shape()[3], gradient, room, sums));
      if (gradients.bias.defined())
        linear_kernels().add_column_sums(gradient, pixels, outputs, outputs, bias.data() + part * outputs);
    }
  });
  fold_weight_sums({.memory = memory,
                    .bias = bias,
                    .of_output = of_output,
                    .of_row = windows.rows() == 1 ? window[3] * window[1] : windows.width_in_vectors()},
                   gradients);
}

}  // namespace dptrain::ops::cpu
