#include "ops/batch_norm_kernels.h"
#include "ops/cpu_kernels.h"

namespace dptrain::ops {

namespace baseline {
extern const BatchNormKernels kBatchNorm;
}
namespace avx2 {
extern const BatchNormKernels kBatchNorm;
}
namespace avx512 {
extern const BatchNormKernels kBatchNorm;
}

const BatchNormKernels& batch_norm_kernels() {
  return kernels_for(cpu_isa(), baseline::kBatchNorm, avx2::kBatchNorm, avx512::kBatchNorm);
}

}  // namespace dptrain::ops
