#pragma once

#include "tensor/tensor.h"

namespace dptrain::ops {

/// Writes the device's clock, in nanoseconds, to stamps[at] (i64). Does nothing on a CPU worker, where the host's clock
/// serves.
void stamp_time(const Tensor& stamps, int64_t at);

/// Adds the time since the last lap to laps[at] (i64, nanoseconds): the device's clock minus laps[0]. Then sets laps[0]
/// to the clock. Does nothing on a CPU worker.
void add_lap(const Tensor& laps, int64_t at);

/// Copies `bytes` (u8) to the host memory whose address is in `address` (i64 [1]) when the device runs the copy, so
/// that a recorded step can leave its results in a different place each time. The memory must come from the device's
/// `host_memory`.
void publish(const Tensor& bytes, const Tensor& address);

}  // namespace dptrain::ops
