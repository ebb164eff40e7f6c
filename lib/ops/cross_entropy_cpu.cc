#include "ops/cross_entropy_cpu.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "ops/cross_entropy_kernels.h"
#include "ops/f32_pieces.h"

namespace dptrain::ops::cpu {
namespace {

std::span<const float> row_of(const Tensor& logits, int64_t sample, Pieces& pieces) {
  const int64_t classes = logits.shape()[1];
  return {pieces.read(logits, sample * classes, classes), static_cast<size_t>(classes)};
}

int64_t size_of(std::span<const float> row) { return static_cast<int64_t>(row.size()); }

float largest_of(std::span<const float> row) { return cross_entropy_kernels().largest(row.data(), size_of(row)); }

/// Returns the mean of logit - largest.
double mean_distance(std::span<const float> row, float largest) {
  double sum = 0;
  for (const float logit : row) sum += static_cast<double>(logit) - largest;
  return sum / static_cast<double>(row.size());
}

}  // namespace

Tensor cross_entropy_forward(const Tensor& logits, const Tensor& labels, const CrossEntropyOptions& options) {
  Tensor losses = Tensor::empty(logits.device(), labels.shape(), {.dtype = DType::f64});
  const double smoothing = options.label_smoothing;
  for_each_unit(logits, logits.shape()[0], logits.shape()[1], [&](int64_t n, Pieces& pieces) {
    double& loss = losses.data<double>()[n] = 0;
    const int32_t label = labels.data<int32_t>()[n];
    if (label < 0) return;
    const auto row = row_of(logits, n, pieces);
    const float largest = largest_of(row);
    const double own = static_cast<double>(row[static_cast<size_t>(label)]) - largest;
    // All in double: a loss near zero is a difference of nearly equal numbers.
    const double sum = cross_entropy_kernels().exact_sum_of_exponentials(row.data(), size_of(row), largest);
    loss = std::log(sum) - (1 - smoothing) * own;
    if (smoothing > 0) loss -= smoothing * mean_distance(row, largest);
  });
  return losses;
}

Tensor cross_entropy_backward(const Tensor& logits, const Tensor& labels, const CrossEntropyOptions& options) {
  Tensor gradient = Tensor::empty(logits.device(), logits.shape(), {.dtype = logits.dtype()});
  const int64_t classes = logits.shape()[1];
  const double scale = options.count.defined() ? options.scale / *options.count.data<int32_t>() : options.scale;
  // Scaled target values: of the label alone, and of every class.
  const double own = scale * (1 - options.label_smoothing);
  const double every = scale * options.label_smoothing / static_cast<double>(classes);
  for_each_unit(logits, logits.shape()[0], 2 * classes, [&](int64_t n, Pieces& pieces) {
    const auto row = row_of(logits, n, pieces);
    float* out = pieces.write(gradient, n * classes, classes);
    const int32_t label = labels.data<int32_t>()[n];
    if (label < 0) {
      std::fill(out, out + row.size(), 0.f);
      return;
    }
    const float largest = largest_of(row);
    const double share = scale / cross_entropy_kernels().sum_of_exponentials(row.data(), size_of(row), largest);
    cross_entropy_kernels().spread(row.data(), size_of(row), largest, static_cast<float>(share),
                                   static_cast<float>(every), out);
    // The label's gradient is a difference of nearly equal numbers, so it is computed in double.
    const double distance = static_cast<double>(row[static_cast<size_t>(label)]) - largest;
    out[label] = static_cast<float>(share * std::exp(distance) - every - own);
  });
  return gradient;
}

Tensor correct_samples(const Tensor& logits, const Tensor& labels) {
  Tensor correct = Tensor::empty(logits.device(), labels.shape(), {.dtype = DType::i32});
  for_each_unit(logits, logits.shape()[0], logits.shape()[1], [&](int64_t n, Pieces& pieces) {
    const auto row = row_of(logits, n, pieces);
    const int32_t label = labels.data<int32_t>()[n];
    // The first of the largest logits counts.
    correct.data<int32_t>()[n] = label >= 0 && std::ranges::find(row, largest_of(row)) - row.begin() == label;
  });
  return correct;
}

}  // namespace dptrain::ops::cpu
