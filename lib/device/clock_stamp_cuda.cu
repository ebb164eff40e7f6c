#include <cuda/ptx>

#include "device/clock_stamp_cuda.h"
#include "device/cuda_launch.h"

namespace dptrain {
namespace {

__device__ int64_t clock_ns() { return static_cast<int64_t>(::cuda::ptx::get_sreg_globaltimer()); }

__global__ void stamp_clock_kernel(int64_t* place) { *place = clock_ns(); }

__global__ void add_clock_lap_kernel(int64_t* place, int64_t* sum) {
  const int64_t now = clock_ns();
  *sum += now - *place;
  *place = now;
}

}  // namespace

void stamp_clock(int64_t* place, cudaStream_t stream) {
  launch_kernel("stamp_clock", stream, 1, 1, stamp_clock_kernel, place);
}

void add_clock_lap(int64_t* place, int64_t* sum, cudaStream_t stream) {
  launch_kernel("add_clock_lap", stream, 1, 1, add_clock_lap_kernel, place, sum);
}

}  // namespace dptrain
