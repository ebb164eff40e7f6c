#include "ops/compression_kernels.h"
#include "ops/cpu_kernels.h"

namespace dptrain::ops {

namespace baseline {
extern const CompressionKernels kCompression;
}
namespace avx2 {
extern const CompressionKernels kCompression;
}
namespace avx512 {
extern const CompressionKernels kCompression;
}

const CompressionKernels& compression_kernels() {
  return kernels_for(cpu_isa(), baseline::kCompression, avx2::kCompression, avx512::kCompression);
}

}  // namespace dptrain::ops
