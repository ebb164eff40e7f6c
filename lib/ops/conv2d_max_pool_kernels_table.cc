#include "ops/conv2d_max_pool_kernels.h"
#include "ops/cpu_kernels.h"

namespace dptrain::ops {

namespace baseline {
extern const Conv2dMaxPoolKernels kConv2dMaxPool;
}
namespace avx2 {
extern const Conv2dMaxPoolKernels kConv2dMaxPool;
}
namespace avx512 {
extern const Conv2dMaxPoolKernels kConv2dMaxPool;
}

const Conv2dMaxPoolKernels& conv2d_max_pool_kernels() {
  return kernels_for(cpu_isa(), baseline::kConv2dMaxPool, avx2::kConv2dMaxPool, avx512::kConv2dMaxPool);
}

}  // namespace dptrain::ops
