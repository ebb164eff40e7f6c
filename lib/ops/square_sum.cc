#include "ops/square_sum.h"

#include "ops/dispatch.h"
#include "ops/square_digits.h"
#include "ops/square_sum_cpu.h"
#include "ops/square_sum_cuda.h"

namespace dptrain::ops {

Tensor no_squares(Device& device) {
  return Tensor::zeros(device, {kSquareSumNumbers}, {.dtype = DType::f64, .purpose = MemoryPurpose::workspace});
}

void add_squares(const Tensor& values, const Tensor& sum) {
  Device& device = common_device("add_squares", {&values, &sum});
  on_device(
      "add_squares", device, [&] { cpu::add_squares(values, sum); }, [&] { cuda::add_squares(values, sum); });
}

Tensor square_sum(const Tensor& values) {
  const Tensor sum = no_squares(values.device());
  add_squares(values, sum);
  return sum;
}

}  // namespace dptrain::ops
