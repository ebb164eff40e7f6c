#include "ops/scaled_half.h"

#include "ops/dispatch.h"
#include "ops/scaled_half_cpu.h"
#include "ops/scaled_half_cuda.h"

namespace dptrain::ops {

Tensor largest_magnitude(const Tensor& values) {
  Device& device = values.device();
  return on_device(
      "largest_magnitude", device, [&] { return cpu::largest_magnitude(values); },
      [&] { return cuda::largest_magnitude(values); });
}

void scale_to_f16(const Tensor& values, const Tensor& bound, const Tensor& to) {
  Device& device = common_device("scale_to_f16", {&values, &bound, &to});
  require_shape("scale_to_f16", "output", to.shape(), values.shape());
  on_device(
      "scale_to_f16", device, [&] { cpu::scale_to_f16(values, bound, to); },
      [&] { cuda::scale_to_f16(values, bound, to); });
}

void scale_from_f16(const Tensor& halves, const Tensor& bound, const Tensor& to) {
  Device& device = common_device("scale_from_f16", {&halves, &bound, &to});
  require_shape("scale_from_f16", "output", to.shape(), halves.shape());
  on_device(
      "scale_from_f16", device, [&] { cpu::scale_from_f16(halves, bound, to); },
      [&] { cuda::scale_from_f16(halves, bound, to); });
}

}  // namespace dptrain::ops
