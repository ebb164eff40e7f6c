#include "ops/cpu_kernels.h"
#include "ops/max_pool_kernels.h"

namespace dptrain::ops {

namespace baseline {
extern const MaxPoolKernels kMaxPool;
}
namespace avx2 {
extern const MaxPoolKernels kMaxPool;
}
namespace avx512 {
extern const MaxPoolKernels kMaxPool;
}

const MaxPoolKernels& max_pool_kernels() {
  return kernels_for(cpu_isa(), baseline::kMaxPool, avx2::kMaxPool, avx512::kMaxPool);
}

}  // namespace dptrain::ops
