#include "ops/cross_entropy_cpu.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "device/parallel_for.h"

namespace dptrain::ops::cpu {
namespace {

std::span<const float> row_of(const Tensor& logits, int64_t sample) {
  const int64_t classes = logits.shape()[1];
  return {logits.data<float>() + sample * classes, static_cast<size_t>(classes)};
}

/// Of exp(logit - largest): the exponents are at most zero, so that nothing overflows. Double precision: a loss near
/// zero is a difference of near equals.
double sum_of_exponentials(std::span<const float> row, float largest) {
  double sum = 0;
  for (const float logit : row) sum += std::exp(static_cast<double>(logit) - largest);
  return sum;
}

/// Of logit - largest.
double mean_distance(std::span<const float> row, float largest) {
  double sum = 0;
  for (const float logit : row) sum += static_cast<double>(logit) - largest;
  return sum / static_cast<double>(row.size());
}

}  // namespace

Tensor cross_entropy_forward(const Tensor& logits, const Tensor& labels, const CrossEntropyOptions& options) {
  Tensor losses = Tensor::empty(logits.device(), labels.shape(), {.dtype = DType::f64});
  const double smoothing = options.label_smoothing;
  parallel_for(logits.device(), logits.shape()[0], [&](int64_t n) {
    double& loss = losses.data<double>()[n] = 0;
    const int32_t label = labels.data<int32_t>()[n];
    if (label < 0) return;
    const auto row = row_of(logits, n);
    const float largest = *std::ranges::max_element(row);
    const double own = static_cast<double>(row[static_cast<size_t>(label)]) - largest;
    loss = std::log(sum_of_exponentials(row, largest)) - (1 - smoothing) * own;
    if (smoothing > 0) loss -= smoothing * mean_distance(row, largest);
  });
  return losses;
}

Tensor cross_entropy_backward(const Tensor& logits, const Tensor& labels, const CrossEntropyOptions& options) {
  Tensor gradient = Tensor::empty(logits.device(), logits.shape());
  const double scale = options.count.defined() ? options.scale / *options.count.data<int32_t>() : options.scale;
  // The target's parts: of the label alone, and of every class.
  const double own = scale * (1 - options.label_smoothing);
  const double every = scale * options.label_smoothing / static_cast<double>(logits.shape()[1]);
  parallel_for(logits.device(), logits.shape()[0], [&](int64_t n) {
    const auto row = row_of(logits, n);
    float* out = gradient.data<float>() + n * logits.shape()[1];
    const int32_t label = labels.data<int32_t>()[n];
    if (label < 0) {
      std::fill(out, out + row.size(), 0.f);
      return;
    }
    const float largest = *std::ranges::max_element(row);
    const double share = scale / sum_of_exponentials(row, largest);
    const auto spread = [&](size_t k) { return share * std::exp(static_cast<double>(row[k]) - largest) - every; };
    for (size_t k = 0; k < row.size(); ++k) out[k] = static_cast<float>(spread(k));
    out[label] = static_cast<float>(spread(static_cast<size_t>(label)) - own);
  });
  return gradient;
}

Tensor correct_samples(const Tensor& logits, const Tensor& labels) {
  Tensor correct = Tensor::empty(logits.device(), labels.shape(), {.dtype = DType::i32});
  for (int64_t n = 0; n < logits.shape()[0]; ++n) {
    const auto row = row_of(logits, n);
    correct.data<int32_t>()[n] = std::ranges::max_element(row) - row.begin() == labels.data<int32_t>()[n];
  }
  return correct;
}

}  // namespace dptrain::ops::cpu
