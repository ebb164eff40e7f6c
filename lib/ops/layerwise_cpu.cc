#include "ops/layerwise_cpu.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "device/parallel_for.h"
#include "ops/bf16_kernels.h"
#include "ops/elementwise_kernels.h"
#include "ops/layerwise_chunks_cpu.h"
#include "ops/square_sum_kernels.h"
#include "ops/trust_ratio.h"

namespace dptrain::ops::cpu {
namespace {

TensorNumbers numbers_of_tensor(const TensorTable& table, int64_t tensor) {
  return TensorNumbers::of(table.numbers.data<double>(), tensor);
}

float gradient_factor(const UpdateControl& control) {
  return control.gradient_factor.defined() ? *control.gradient_factor.data<float>() : 1.f;
}

/// Calls update(chunk, numbers) for each chunk; `numbers_of` makes the numbers of a tensor.
template <class NumbersOf, class Update>
void update_chunks(const TensorTable& table, const Tensor& weights, const Tensor& copy, const NumbersOf& numbers_of,
                   const Update& update) {
  if (!weights.device().computes()) return;
  std::vector<decltype(numbers_of(int64_t{}))> numbers(static_cast<size_t>(table.tensors));
  for (int64_t tensor = 0; tensor < table.tensors; ++tensor)
    if (has_part(table, tensor)) numbers[static_cast<size_t>(tensor)] = numbers_of(tensor);
  parallel_for(weights.device(), table.count(), [&](int64_t i) {
    const TensorChunk chunk = chunk_at(table, i);
    update(chunk, numbers[static_cast<size_t>(chunk.tensor)]);
    if (copy.defined())
      bf16_kernels().round(weights.data<float>() + chunk.begin, copy.data<Bfloat16>() + chunk.begin, chunk.elements);
  });
}

double norm_of(const double* squares) { return std::sqrt(rounded_square_sum(squares)); }

LambNumbers lamb_numbers(const LambOptions& options) {
  const auto step = static_cast<double>(options.step);
  return {.beta2 = static_cast<float>(options.beta2),
          .first_share = static_cast<float>(1 - options.beta1),
          .second_share = static_cast<float>(1 - options.beta2),
          .first_factor = static_cast<float>(1 / (1 - std::pow(options.beta1, step))),
          .second_factor = static_cast<float>(1 / std::sqrt(1 - std::pow(options.beta2, step))),
          .epsilon = static_cast<float>(options.epsilon)};
}

}  // namespace

void tensor_squares(const Tensor& first, const Tensor& second, const TensorTable& table, const Tensor& squares) {
  measure_chunks(table, squares, [&](const TensorChunk& chunk, SquareRun& of_first, SquareRun& of_second) {
    of_first.add(first.data<float>() + chunk.begin, chunk.elements);
    of_second.add(second.data<float>() + chunk.begin, chunk.elements);
  });
}

void lars_step(const Tensor& weights, const Tensor& gradients, const Tensor& velocity, const TensorTable& table,
               const Tensor& squares, const LarsOptions& options) {
  struct Numbers {
    float gradient_factor = 1;
    SgdNumbers sgd = {};
  };
  const auto numbers_of = [&](int64_t tensor) {
    const TensorNumbers own = numbers_of_tensor(table, tensor);
    const auto* sums = squares.data<double>();
    // Rounded to f32, because a GPU reads them as f32.
    const double factor = gradient_factor(options.control), rate = static_cast<float>(options.learning_rate),
                 decay = static_cast<float>(options.weight_decay) * own.decay_factor;
    const double ratio =
        own.adapts ? lars_ratio(norm_of(weights_squares(sums, tensor)), factor * norm_of(updates_squares(sums, tensor)),
                                decay, options.trust_coefficient, options.epsilon)
                   : 1;
    return Numbers{.gradient_factor = static_cast<float>(ratio * factor),
                   .sgd = {.learning_rate = static_cast<float>(rate * own.rate_factor),
                           .momentum = static_cast<float>(options.momentum),
                           .weight_decay = static_cast<float>(ratio * decay),
                           .nesterov = options.nesterov}};
  };
  update_chunks(table, weights, options.copy, numbers_of, [&](const TensorChunk& chunk, const Numbers& numbers) {
    float* weight = weights.data<float>() + chunk.begin;
    float* gradient = gradients.data<float>() + chunk.begin;
    if (numbers.gradient_factor != 1.f) elementwise_kernels().scale(gradient, numbers.gradient_factor, chunk.elements);
    if (velocity.defined())
      elementwise_kernels().sgd_momentum(weight, gradient, velocity.data<float>() + chunk.begin, chunk.elements,
                                         numbers.sgd);
    else
      elementwise_kernels().sgd(weight, gradient, chunk.elements, numbers.sgd);
  });
}

void lamb_measure(const Tensor& weights, const Tensor& gradients, const AdamMoments& moments, const TensorTable& table,
                  const Tensor& squares, const LambOptions& options) {
  const float factor = gradient_factor(options.control);
  const LambNumbers common = lamb_numbers(options);
  measure_chunks(table, squares, [&](const TensorChunk& chunk, SquareRun& of_weights, SquareRun& of_directions) {
    LambNumbers numbers = common;
    numbers.weight_decay =
        static_cast<float>(options.weight_decay * numbers_of_tensor(table, chunk.tensor).decay_factor);
    if (factor != 1.f) elementwise_kernels().scale(gradients.data<float>() + chunk.begin, factor, chunk.elements);
    float directions[kSquareBlock];
    for (int64_t done = 0; done < chunk.elements; done += kSquareBlock) {
      const int64_t at = chunk.begin + done, count = std::min(kSquareBlock, chunk.elements - done);
      const float* weight = weights.data<float>() + at;
      elementwise_kernels().lamb_measure(weight, gradients.data<float>() + at, moments.first.data<float>() + at,
                                         moments.second.data<float>() + at, directions, count, numbers);
      of_weights.add(weight, count);
      of_directions.add(directions, count);
    }
  });
}

void lamb_step(const Tensor& weights, const AdamMoments& moments, const TensorTable& table, const Tensor& squares,
               const LambOptions& options) {
  const LambNumbers common = lamb_numbers(options);
  const auto numbers_of = [&](int64_t tensor) {
    const TensorNumbers own = numbers_of_tensor(table, tensor);
    const auto* sums = squares.data<double>();
    const double ratio =
        own.adapts ? lamb_ratio(norm_of(weights_squares(sums, tensor)), norm_of(updates_squares(sums, tensor))) : 1;
    LambNumbers numbers = common;
    numbers.weight_decay = static_cast<float>(options.weight_decay * own.decay_factor);
    numbers.rate = static_cast<float>(static_cast<float>(options.learning_rate) * own.rate_factor * ratio);
    return numbers;
  };
  update_chunks(table, weights, options.copy, numbers_of, [&](const TensorChunk& chunk, const LambNumbers& numbers) {
    elementwise_kernels().lamb(weights.data<float>() + chunk.begin, moments.first.data<float>() + chunk.begin,
                               moments.second.data<float>() + chunk.begin, chunk.elements, numbers);
  });
}

}  // namespace dptrain::ops::cpu
