#include "ops/cpu_kernels.h"
#include "ops/square_sum_kernels.h"

namespace dptrain::ops {

namespace baseline {
extern const SquareSumKernels kSquareSum;
}
namespace avx2 {
extern const SquareSumKernels kSquareSum;
}
namespace avx512 {
extern const SquareSumKernels kSquareSum;
}

const SquareSumKernels& square_sum_kernels() {
  return kernels_for(cpu_isa(), baseline::kSquareSum, avx2::kSquareSum, avx512::kSquareSum);
}

}  // namespace dptrain::ops
