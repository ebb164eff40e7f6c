#include "ops/cpu_kernels.h"
#include "ops/dropout_kernels.h"

namespace dptrain::ops {

namespace baseline {
extern const DropoutKernels kDropout;
}
namespace avx2 {
extern const DropoutKernels kDropout;
}
namespace avx512 {
extern const DropoutKernels kDropout;
}

const DropoutKernels& dropout_kernels() {
  return kernels_for(cpu_isa(), baseline::kDropout, avx2::kDropout, avx512::kDropout);
}

}  // namespace dptrain::ops
