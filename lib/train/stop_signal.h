#pragma once

#include <atomic>

namespace dptrain::train {

/// A signal that asks what is at work to stop after the step in hand; 0 while there is none. Set by a signal handler.
using StopSignal = std::atomic<int>;

}  // namespace dptrain::train
