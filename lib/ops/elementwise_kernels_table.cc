#include "ops/cpu_kernels.h"
#include "ops/elementwise_kernels.h"

namespace dptrain::ops {

namespace baseline {
extern const ElementwiseKernels kElementwise;
}
namespace avx2 {
extern const ElementwiseKernels kElementwise;
}
namespace avx512 {
extern const ElementwiseKernels kElementwise;
}

const ElementwiseKernels& elementwise_kernels() {
  return kernels_for(cpu_isa(), baseline::kElementwise, avx2::kElementwise, avx512::kElementwise);
}

}  // namespace dptrain::ops
