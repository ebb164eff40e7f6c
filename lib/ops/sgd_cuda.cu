#include "ops/cuda_kernels.h"
#include "ops/sgd_cuda.h"
#include "ops/update_cuda.h"

// One launch over all parameters. Bytes a weight: reads 4 (weight) + 4 (gradient) [+ 4 (velocity)], writes 4 [+ 4] and
// 2 for a half precision copy.

namespace dptrain::ops::cuda {
namespace {

/// The numbers of a step for a group of weights.
struct Numbers {
  float rate;
  float decay;
};

struct Step {
  float learning_rate;
  float momentum;
  float decay;
  bool nesterov;

  /// The same contractions as the CPU's kernels: a product that is added is one fma.
  __device__ void apply(const Numbers& own, float& weight, float gradient, float* velocity) const {
    const float g = fmaf(own.decay, weight, gradient);
    if (velocity == nullptr) {
      weight = fmaf(-own.rate, g, weight);
      return;
    }
    *velocity = fmaf(momentum, *velocity, g);
    weight = fmaf(-own.rate, nesterov ? fmaf(momentum, *velocity, g) : *velocity, weight);
  }
};

/// `Copy` is the type of the copy that operators read; float where there is none.
template <int V, class Copy>
__global__ void sgd_kernel(int64_t packs, float* weights, const float* gradients, float* velocities, Copy* copies,
                           Step step, UpdateScalars scalars, GroupTable groups) {
  if (scalars.skipped_now()) return;
  __shared__ Numbers numbers[UpdateGroups::kMost];
  groups.fill(numbers, [&](double rate_factor, double decay_factor) {
    return Numbers{.rate = static_cast<float>(scalars.rate(step.learning_rate) * rate_factor),
                   .decay = static_cast<float>(step.decay * decay_factor)};
  });
  const float factor = scalars.factor();
  for (int64_t pack = global_thread(); pack < packs; pack += global_threads()) {
    const int64_t at = pack * V;
    const Numbers own = numbers[groups.of(at)];
    auto weight = Pack<float, V>::load(weights + at);
    const auto gradient = Pack<float, V>::load(gradients + at);
    Pack<float, V> velocity;
    if (velocities != nullptr) velocity = Pack<float, V>::load(velocities + at);
    for (int i = 0; i < V; ++i)
      step.apply(own, weight.at[i], gradient.at[i] * factor, velocities != nullptr ? &velocity.at[i] : nullptr);
    weight.store(weights + at);
    if (velocities != nullptr) velocity.store(velocities + at);
    if (copies != nullptr) {
      Pack<Copy, V> copy;
      for (int i = 0; i < V; ++i) copy.set(i, weight.at[i]);
      copy.store(copies + at);
    }
  }
}

}  // namespace

void sgd_step(const Tensor& weights, const Tensor& gradients, const Tensor& velocity, const SgdOptions& options) {
  const int64_t count = weights.storage_elements();
  if (count == 0) return;
  float* velocities = data_or_null<float>(velocity);
  const Step step{.learning_rate = static_cast<float>(options.learning_rate),
                  .momentum = static_cast<float>(options.momentum),
                  .decay = static_cast<float>(options.weight_decay),
                  .nesterov = options.nesterov};
  const UpdateScalars scalars(options.control);
  const GroupTable groups(options.groups);
  const Tensor& copied = options.copy.defined() ? options.copy : weights;
  with_element_type(copied, [&]<class Copy>(ElementType<Copy>) {
    Copy* copies = data_or_null<Copy>(options.copy);
    const auto launch_with = [&]<int V>(std::integral_constant<int, V>) {
      launch("sgd", weights, blocks_for(weights, count / V), kThreads, sgd_kernel<V, Copy>, count / V,
             weights.data<float>(), gradients.data<float>(), velocities, copies, step, scalars, groups);
    };
    if (in_packs(count, 4, {weights.raw(), gradients.raw(), velocities, copies}))
      launch_with(std::integral_constant<int, 4>());
    else
      launch_with(std::integral_constant<int, 1>());
  });
}

}  // namespace dptrain::ops::cuda
