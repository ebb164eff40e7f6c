#include <cuda/ptx>

#include "device/clock_stamp_cuda.h"
#include "device/cuda_launch.h"

namespace dptrain {
namespace {

__global__ void stamp_clock_kernel(int64_t* place) {
  *place = static_cast<int64_t>(::cuda::ptx::get_sreg_globaltimer());
}

}  // namespace

void stamp_clock(int64_t* place, cudaStream_t stream) {
  launch_kernel("stamp_clock", stream, 1, 1, stamp_clock_kernel, place);
}

}  // namespace dptrain
