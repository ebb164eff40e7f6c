#include "ops/bf16_kernels.h"
#include "ops/cpu_kernels.h"

namespace dptrain::ops {

namespace baseline {
extern const Bf16Kernels kBf16;
}
namespace avx2 {
extern const Bf16Kernels kBf16;
}
namespace avx512 {
extern const Bf16Kernels kBf16;
}

const Bf16Kernels& bf16_kernels() { return kernels_for(cpu_isa(), baseline::kBf16, avx2::kBf16, avx512::kBf16); }

}  // namespace dptrain::ops
