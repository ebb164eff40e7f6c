#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace dptrain {

/// Makes the GPU write its clock, in nanoseconds, to `place` in its memory when the stream gets here. Launches one
/// thread.
void stamp_clock(int64_t* place, cudaStream_t stream);
/// Replaces the earlier time in `place` by the current one, and adds the time between the two to `sum`.
void add_clock_lap(int64_t* place, int64_t* sum, cudaStream_t stream);

}  // namespace dptrain
