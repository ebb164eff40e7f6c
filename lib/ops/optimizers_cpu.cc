#include "ops/optimizers_cpu.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "device/parallel_for.h"
#include "ops/bf16_kernels.h"
#include "ops/clip.h"
#include "ops/elementwise_kernels.h"
#include "ops/square_digits.h"

namespace dptrain::ops::cpu {
namespace {

/// Elements that are processed at once: what an update reads and writes for them stays in a core's own cache.
constexpr int64_t kRun = 16384;

UpdateFactors factors_of(const UpdateGroups& groups, int64_t group) {
  if (!groups.defined()) return {};
  const double* pair = groups.factors.data<double>() + 2 * group;
  return {.learning_rate = pair[0], .weight_decay = pair[1]};
}

/// Calls update(group, begin, count) for the weights in [begin, end), one call for each consecutive range of the same
/// group. `begin` is a multiple of 16.
template <class Update>
void for_each_group(const UpdateGroups& groups, int64_t begin, int64_t end, const Update& update) {
  if (!groups.defined()) return update(size_t{0}, begin, end - begin);
  constexpr int64_t kBlock = UpdateGroups::kBlock;
  const auto* of_blocks = groups.of_blocks.data<uint8_t>();
  const int64_t last = (end + kBlock - 1) / kBlock;
  for (int64_t block = begin / kBlock; block < last;) {
    int64_t next = block + 1;
    while (next < last && of_blocks[next] == of_blocks[block]) ++next;
    const int64_t at = block * kBlock;
    update(size_t{of_blocks[block]}, at, std::min(next * kBlock, end) - at);
    block = next;
  }
}

/// Calls update(numbers, begin, count) for each run and its groups, after multiplying their gradients by the control's
/// factor. `numbers_of` makes an update's numbers from its factors.
template <class Options, class NumbersOf, class Update>
void for_runs(const Tensor& gradients, const Options& options, const NumbersOf& numbers_of, const Update& update) {
  if (!gradients.device().computes()) return;
  const Tensor& given = options.control.gradient_factor;
  const float factor = given.defined() ? *given.template data<float>() : 1.f;
  const UpdateGroups& groups = options.groups;
  std::vector<decltype(numbers_of(UpdateFactors()))> numbers;
  for (int64_t group = 0; group < groups.count(); ++group) numbers.push_back(numbers_of(factors_of(groups, group)));
  const int64_t elements = gradients.storage_elements();
  parallel_for(gradients.device(), (elements + kRun - 1) / kRun, [&](int64_t run) {
    const int64_t begin = run * kRun, count = std::min(kRun, elements - begin);
    if (factor != 1.f) elementwise_kernels().scale(gradients.data<float>() + begin, factor, count);
    for_each_group(groups, begin, begin + count,
                   [&](size_t group, int64_t at, int64_t some) { update(numbers[group], at, some); });
  });
}

/// Writes the half-precision copy of weights that have just been updated, if there is a copy.
void write_copy(const float* weight, const Tensor& copy, int64_t at, int64_t count) {
  if (copy.defined()) bf16_kernels().round(weight, copy.data<Bfloat16>() + at, count);
}

}  // namespace

Tensor clip_factor(const Tensor& squares, double most, const Tensor& factor) {
  const Tensor clip = Tensor::empty(squares.device(), {1}, {.purpose = MemoryPurpose::workspace});
  const double before = factor.defined() ? *factor.data<float>() : 1;
  const double norm = before * std::sqrt(rounded_square_sum(squares.data<double>()));
  const double share = most / (norm + kClipEpsilon);
  *clip.data<float>() = static_cast<float>(before * (share < 1 ? share : 1));
  return clip;
}

void sgd_step(const Tensor& weights, const Tensor& gradients, const Tensor& velocity, const SgdOptions& options) {
  const auto numbers_of = [&](const UpdateFactors& factors) {
    // Rounded to f32, because a GPU reads them as f32.
    const double rate = static_cast<float>(options.learning_rate), decay = static_cast<float>(options.weight_decay);
    return SgdNumbers{.learning_rate = static_cast<float>(rate * factors.learning_rate),
                      .momentum = static_cast<float>(options.momentum),
                      .weight_decay = static_cast<float>(decay * factors.weight_decay),
                      .nesterov = options.nesterov};
  };
  for_runs(gradients, options, numbers_of, [&](const SgdNumbers& numbers, int64_t at, int64_t count) {
    float* weight = weights.data<float>() + at;
    const float* gradient = gradients.data<float>() + at;
    if (velocity.defined())
      elementwise_kernels().sgd_momentum(weight, gradient, velocity.data<float>() + at, count, numbers);
    else
      elementwise_kernels().sgd(weight, gradient, count, numbers);
    write_copy(weight, options.copy, at, count);
  });
}

void adam_step(const Tensor& weights, const Tensor& gradients, const AdamMoments& moments, const AdamOptions& options) {
  const double step = static_cast<double>(options.step);
  const auto numbers_of = [&](const UpdateFactors& factors) {
    const double rate = options.learning_rate * factors.learning_rate,
                 decay = options.weight_decay * factors.weight_decay;
    return AdamNumbers{.step_size = static_cast<float>(rate / (1 - std::pow(options.beta1, step))),
                       .second_factor = static_cast<float>(1 / std::sqrt(1 - std::pow(options.beta2, step))),
                       .beta2 = static_cast<float>(options.beta2),
                       .first_share = static_cast<float>(1 - options.beta1),
                       .second_share = static_cast<float>(1 - options.beta2),
                       .epsilon = static_cast<float>(options.epsilon),
                       .weight_decay = options.decoupled ? 0.f : static_cast<float>(decay),
                       .kept = options.decoupled ? static_cast<float>(1 - rate * decay) : 1.f};
  };
  for_runs(gradients, options, numbers_of, [&](const AdamNumbers& numbers, int64_t at, int64_t count) {
    float* weight = weights.data<float>() + at;
    elementwise_kernels().adam(weight, gradients.data<float>() + at, moments.first.data<float>() + at,
                               moments.second.data<float>() + at, count, numbers);
    write_copy(weight, options.copy, at, count);
  });
}

}  // namespace dptrain::ops::cpu
