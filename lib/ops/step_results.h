#pragma once

#include "tensor/tensor.h"

namespace dptrain::ops {

/// Writes the device's clock, in nanoseconds, to stamps[at]: i64. On a CPU worker nothing, since the host's clock
/// tells.
void stamp_time(const Tensor& stamps, int64_t at);

/// The device's clock has come from laps[0], in nanoseconds, to where it is now: laps[at] (i64) grows by that much, and
/// laps[0] is now. On a CPU worker nothing.
void add_lap(const Tensor& laps, int64_t at);

/// Copies `bytes` (u8) to host memory whose address stands in `address` (i64 [1]) when the copy is done: a recorded
/// step leaves its results in another place each time. The memory is of the device's `host_memory`.
void publish(const Tensor& bytes, const Tensor& address);

}  // namespace dptrain::ops
