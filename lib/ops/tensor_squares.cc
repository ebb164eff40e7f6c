#include "ops/tensor_squares.h"

#include "ops/dispatch.h"
#include "ops/layerwise_cpu.h"
#include "ops/tensor_squares_cuda.h"

namespace dptrain::ops {

void tensor_squares(const Tensor& first, const Tensor& second, const TensorTable& table, const Tensor& squares) {
  Device& device = common_device("tensor_squares", {&first, &second, &table.chunks, &squares});
  require_flat("tensor_squares", table, squares, {&first, &second});
  on_device(
      "tensor_squares", device, [&] { cpu::tensor_squares(first, second, table, squares); },
      [&] { cuda::tensor_squares(first, second, table, squares); });
}

}  // namespace dptrain::ops
