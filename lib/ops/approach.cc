#include "ops/approach.h"

#include "ops/dispatch.h"
#include "ops/elementwise_cpu.h"
#include "ops/elementwise_cuda.h"

namespace dptrain::ops {

void approach(const Tensor& to, const Tensor& from, float share) {
  Device& device = common_device("approach", {&to, &from});
  require_shape("approach", "what is approached", from.shape(), to.shape());
  on_device(
      "approach", device, [&] { cpu::approach(to, from, share); }, [&] { cuda::approach(to, from, share); });
}

}  // namespace dptrain::ops
