#include <cuda/ptx>

#include "ops/cuda_kernels.h"
#include "ops/delay_cuda.h"

namespace dptrain::ops::cuda {
namespace {

/// One thread reads the GPU's clock until the time has passed.
__global__ void delay_kernel(const int64_t* nanoseconds) {
  const auto begun = static_cast<int64_t>(::cuda::ptx::get_sreg_globaltimer());
  while (static_cast<int64_t>(::cuda::ptx::get_sreg_globaltimer()) - begun < *nanoseconds) {
  }
}

}  // namespace

void delay(const Tensor& nanoseconds) { launch("delay", nanoseconds, 1, 1, delay_kernel, nanoseconds.data<int64_t>()); }

}  // namespace dptrain::ops::cuda
