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

}  // namespace

Tensor cross_entropy_forward(const Tensor& logits, const Tensor& labels) {
  Tensor losses = Tensor::empty(logits.device(), labels.shape(), {.dtype = DType::f64});
  parallel_for(logits.device(), logits.shape()[0], [&](int64_t n) {
    const auto row = row_of(logits, n);
    const float largest = *std::ranges::max_element(row);
    const double own = static_cast<double>(row[static_cast<size_t>(labels.data<int32_t>()[n])]) - largest;
    losses.data<double>()[n] = std::log(sum_of_exponentials(row, largest)) - own;
  });
  return losses;
}

Tensor cross_entropy_backward(const Tensor& logits, const Tensor& labels, double scale) {
  Tensor gradient = Tensor::empty(logits.device(), logits.shape());
  parallel_for(logits.device(), logits.shape()[0], [&](int64_t n) {
    const auto row = row_of(logits, n);
    const float largest = *std::ranges::max_element(row);
    const double share = scale / sum_of_exponentials(row, largest);
    float* out = gradient.data<float>() + n * logits.shape()[1];
    for (size_t k = 0; k < row.size(); ++k)
      out[k] = static_cast<float>(share * std::exp(static_cast<double>(row[k]) - largest));
    const int32_t label = labels.data<int32_t>()[n];
    out[label] =
        static_cast<float>(share * std::exp(static_cast<double>(row[static_cast<size_t>(label)]) - largest) - scale);
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
