#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace dptrain {

/// When the stream gets here, the GPU writes its clock, in nanoseconds, to this place in its memory: a launch of one
/// thread.
void stamp_clock(int64_t* place, cudaStream_t stream);
/// The same in place of an earlier moment; what has passed since is added to `sum`.
void add_clock_lap(int64_t* place, int64_t* sum, cudaStream_t stream);

}  // namespace dptrain
