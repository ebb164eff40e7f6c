#include "ops/cpu_kernels.h"
#include "ops/linear_kernels.h"

namespace dptrain::ops {

namespace baseline {
extern const LinearKernels kLinear;
}
namespace avx2 {
extern const LinearKernels kLinear;
}
namespace avx512 {
extern const LinearKernels kLinear;
}

const LinearKernels& linear_kernels() {
  return kernels_for(cpu_isa(), baseline::kLinear, avx2::kLinear, avx512::kLinear);
}

}  // namespace dptrain::ops
