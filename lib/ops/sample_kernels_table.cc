#include "ops/cpu_kernels.h"
#include "ops/sample_kernels.h"

namespace dptrain::ops {

namespace baseline {
extern const SampleKernels kSamples;
}
namespace avx2 {
extern const SampleKernels kSamples;
}
namespace avx512 {
extern const SampleKernels kSamples;
}

const SampleKernels& sample_kernels() {
  return kernels_for(cpu_isa(), baseline::kSamples, avx2::kSamples, avx512::kSamples);
}

}  // namespace dptrain::ops
