#include "ops/lars.h"

#include "ops/dispatch.h"
#include "ops/lars_cuda.h"
#include "ops/layerwise_cpu.h"

namespace dptrain::ops {

void lars_step(const Tensor& weights, const Tensor& gradients, const Tensor& velocity, const TensorTable& table,
               const Tensor& squares, const LarsOptions& options) {
  Device& device = common_device("lars", {&weights, &gradients, &velocity, &table.chunks, &squares, &options.copy});
  require_flat("lars", table, squares, {&weights, &gradients, &velocity, &options.copy});
  on_device(
      "lars", device, [&] { cpu::lars_step(weights, gradients, velocity, table, squares, options); },
      [&] { cuda::lars_step(weights, gradients, velocity, table, squares, options); });
}

}  // namespace dptrain::ops
