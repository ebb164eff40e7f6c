#include "ops/cpu_kernels.h"
#include "ops/cross_entropy_kernels.h"

namespace dptrain::ops {

namespace baseline {
extern const CrossEntropyKernels kCrossEntropy;
}
namespace avx2 {
extern const CrossEntropyKernels kCrossEntropy;
}
namespace avx512 {
extern const CrossEntropyKernels kCrossEntropy;
}

const CrossEntropyKernels& cross_entropy_kernels() {
  return kernels_for(cpu_isa(), baseline::kCrossEntropy, avx2::kCrossEntropy, avx512::kCrossEntropy);
}

}  // namespace dptrain::ops
