#include "ops/sgd_cuda.h"
#include "ops/sgd_update_cuda.h"
#include "ops/update_cuda.h"

// One launch over all parameters. Bytes per weight: it reads 4 (weight) + 4 (gradient) [+ 4 (velocity)], and writes 4
// [+ 4], and 2 more for a half precision copy.

namespace dptrain::ops::cuda {
namespace {

template <int V, class Copy>
__global__ void sgd_kernel(int64_t packs, float* weights, const float* gradients, float* velocities, Copy* copies,
                           SgdUpdate step, float learning_rate, float decay, UpdateScalars scalars, GroupTable groups) {
  if (scalars.skipped_now()) return;
  __shared__ SgdRates numbers[UpdateGroups::kMost];
  groups.fill(numbers, [&](double rate_factor, double decay_factor) {
    return SgdRates{.rate = static_cast<float>(scalars.rate(learning_rate) * rate_factor),
                    .decay = static_cast<float>(decay * decay_factor)};
  });
  const float factor = scalars.factor();
  for (int64_t pack = global_thread(); pack < packs; pack += global_threads()) {
    const int64_t at = pack * V;
    update_sgd_pack<V>(at, weights, gradients, velocities, copies, step, numbers[groups.of(at)], factor);
  }
}

}  // namespace

void sgd_step(const Tensor& weights, const Tensor& gradients, const Tensor& velocity, const SgdOptions& options) {
  const int64_t count = weights.storage_elements();
  if (count == 0) return;
  float* velocities = data_or_null<float>(velocity);
  const SgdUpdate step{.momentum = static_cast<float>(options.momentum), .nesterov = options.nesterov};
  const auto rate = static_cast<float>(options.learning_rate), decay = static_cast<float>(options.weight_decay);
  const UpdateScalars scalars(options.control);
  const GroupTable groups(options.groups);
  const Tensor& copied = options.copy.defined() ? options.copy : weights;
  with_element_type(copied, [&]<class Copy>(ElementType<Copy>) {
    Copy* copies = data_or_null<Copy>(options.copy);
    const auto launch_with = [&]<int V>(std::integral_constant<int, V>) {
      launch("sgd", weights, blocks_for(weights, count / V), kThreads, sgd_kernel<V, Copy>, count / V,
             weights.data<float>(), gradients.data<float>(), velocities, copies, step, rate, decay, scalars, groups);
    };
    if (in_packs(count, 4, {weights.raw(), gradients.raw(), velocities, copies}))
      launch_with(std::integral_constant<int, 4>());
    else
      launch_with(std::integral_constant<int, 1>());
  });
}

}  // namespace dptrain::ops::cuda
