#include "device/cpu_amx.h"
#include "ops/attention_kernels.h"
#include "ops/cpu_kernels.h"

namespace dptrain::ops {

namespace baseline {
extern const AttentionKernels kAttention;
}
namespace avx2 {
extern const AttentionKernels kAttention;
}
namespace avx512 {
extern const AttentionKernels kAttention;
}
namespace amx {
extern const AttentionKernels kAttention;
}

const AttentionKernels& attention_kernels() {
  if (cpu_has_amx()) return amx::kAttention;
  return kernels_for(cpu_isa(), baseline::kAttention, avx2::kAttention, avx512::kAttention);
}

}  // namespace dptrain::ops
