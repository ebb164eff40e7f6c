#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace dptrain {

/// When the stream gets here, the GPU writes its clock, in nanoseconds, to this place in its memory. It takes one
/// thread a launch: some two microseconds of the stream.
void stamp_clock(int64_t* place, cudaStream_t stream);

}  // namespace dptrain
