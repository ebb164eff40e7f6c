#include "device/cpu_isa.h"
#include "ops/winograd_kernels.h"

namespace dptrain::ops {

namespace avx2 {
extern const WinogradKernels kWinograd;
}
namespace avx512 {
extern const WinogradKernels kWinograd;
}

const WinogradKernels& winograd_kernels() { return cpu_isa() == CpuIsa::avx512 ? avx512::kWinograd : avx2::kWinograd; }

}  // namespace dptrain::ops
