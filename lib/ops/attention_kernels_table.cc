#include "device/cpu_bf16.h"
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
namespace avx512_bf16 {
extern const AttentionKernels kAttention;
}

const AttentionKernels& attention_kernels(int pieces) {
  const Bf16Unit unit = cpu_bf16_unit();
  if (unit == Bf16Unit::amx) return amx::kAttention;
  if (unit == Bf16Unit::avx512 && pieces == 1) return avx512_bf16::kAttention;
  return kernels_for(cpu_isa(), baseline::kAttention, avx2::kAttention, avx512::kAttention);
}

}  // namespace dptrain::ops
