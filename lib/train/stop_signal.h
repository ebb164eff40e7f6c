#pragma once

#include <atomic>

namespace dptrain::train {

/// The number of the signal that asks the current work to stop after its current step; 0: none. A signal handler sets
/// it.
using StopSignal = std::atomic<int>;

}  // namespace dptrain::train
