#include "ops/sgd.h"

#include "device/parallel_for.h"
#include "ops/dispatch.h"
#include "ops/elementwise_kernels.h"

namespace dptrain::ops {

void sgd_step(const Tensor& weights, const Tensor& gradients, const Tensor& velocity, const SgdOptions& options) {
  Device& device = common_device("sgd", {&weights, &gradients, &velocity});
  require_shape("sgd", "gradients", gradients.shape(), weights.shape());
  if (velocity.defined()) require_shape("sgd", "velocity", velocity.shape(), weights.shape());
  if (device.kind() != DeviceKind::cpu) no_implementation("sgd", device);
  const SgdNumbers numbers{.learning_rate = static_cast<float>(options.learning_rate),
                           .momentum = static_cast<float>(options.momentum),
                           .weight_decay = static_cast<float>(options.weight_decay),
                           .nesterov = options.nesterov};
  constexpr int64_t kGrain = 16384;
  parallel_ranges(device, weights.storage_elements(), kGrain, [&](int64_t begin, int64_t end) {
    float* weight = weights.data<float>() + begin;
    const float* gradient = gradients.data<float>() + begin;
    if (velocity.defined())
      elementwise_kernels().sgd_momentum(weight, gradient, velocity.data<float>() + begin, end - begin, numbers);
    else
      elementwise_kernels().sgd(weight, gradient, end - begin, numbers);
  });
}

}  // namespace dptrain::ops
