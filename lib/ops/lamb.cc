#include "ops/lamb.h"

#include "ops/dispatch.h"
#include "ops/lamb_cuda.h"
#include "ops/layerwise_cpu.h"

namespace dptrain::ops {

void lamb_measure(const Tensor& weights, const Tensor& gradients, const AdamMoments& moments, const TensorTable& table,
                  const Tensor& squares, const LambOptions& options) {
  Device& device =
      common_device("lamb_measure", {&weights, &gradients, &moments.first, &moments.second, &table.chunks, &squares});
  require_flat("lamb_measure", table, squares, {&weights, &gradients, &moments.first, &moments.second});
  on_device(
      "lamb_measure", device, [&] { cpu::lamb_measure(weights, gradients, moments, table, squares, options); },
      [&] { cuda::lamb_measure(weights, gradients, moments, table, squares, options); });
}

void lamb_step(const Tensor& weights, const AdamMoments& moments, const TensorTable& table, const Tensor& squares,
               const LambOptions& options) {
  Device& device =
      common_device("lamb", {&weights, &moments.first, &moments.second, &table.chunks, &squares, &options.copy});
  require_flat("lamb", table, squares, {&weights, &moments.first, &moments.second, &options.copy});
  on_device(
      "lamb", device, [&] { cpu::lamb_step(weights, moments, table, squares, options); },
      [&] { cuda::lamb_step(weights, moments, table, squares, options); });
}

}  // namespace dptrain::ops
