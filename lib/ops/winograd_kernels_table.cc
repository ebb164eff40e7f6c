#include "ops/cpu_kernels.h"
#include "ops/winograd_kernels.h"

namespace dptrain::ops {

namespace baseline {
extern const WinogradKernels kWinograd;
}
namespace avx2 {
extern const WinogradKernels kWinograd;
}
namespace avx512 {
extern const WinogradKernels kWinograd;
}

const WinogradKernels& winograd_kernels() {
  return kernels_for(cpu_isa(), baseline::kWinograd, avx2::kWinograd, avx512::kWinograd);
}

}  // namespace dptrain::ops
