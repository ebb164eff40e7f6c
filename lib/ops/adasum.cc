#include "ops/adasum.h"

#include "ops/adasum_cpu.h"
#include "ops/adasum_cuda.h"
#include "ops/dispatch.h"

namespace dptrain::ops {

void adasum_squares(const Tensor& first, const Tensor& second, const TensorTable& table, const Tensor& norms,
                    const Tensor& squares) {
  Device& device = common_device("adasum_squares", {&first, &second, &table.chunks, &norms, &squares});
  require_flat("adasum_squares", table, norms, {&first, &second});
  require_flat("adasum_squares", table, squares, {});
  on_device(
      "adasum_squares", device, [&] { cpu::adasum_squares(first, second, table, norms, squares); },
      [&] { cuda::adasum_squares(first, second, table, norms, squares); });
}

void adasum(const Tensor& first, const Tensor& second, const TensorTable& table, const Tensor& norms,
            const Tensor& squares) {
  Device& device = common_device("adasum", {&first, &second, &table.chunks, &norms, &squares});
  require_flat("adasum", table, norms, {&first, &second});
  require_flat("adasum", table, squares, {});
  on_device(
      "adasum", device, [&] { cpu::adasum(first, second, table, norms, squares); },
      [&] { cuda::adasum(first, second, table, norms, squares); });
}

}  // namespace dptrain::ops
