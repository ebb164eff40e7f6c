#include "ops/cpu_kernels.h"
#include "ops/layer_norm_kernels.h"

namespace dptrain::ops {

namespace baseline {
extern const LayerNormKernels kLayerNorm;
}
namespace avx2 {
extern const LayerNormKernels kLayerNorm;
}
namespace avx512 {
extern const LayerNormKernels kLayerNorm;
}

const LayerNormKernels& layer_norm_kernels() {
  return kernels_for(cpu_isa(), baseline::kLayerNorm, avx2::kLayerNorm, avx512::kLayerNorm);
}

}  // namespace dptrain::ops
