#pragma once

#include <chrono>

namespace dptrain {

using Clock = std::chrono::steady_clock;

/// Seconds from `start` to `end`.
inline double seconds_between(Clock::time_point start, Clock::time_point end) {
  return std::chrono::duration<double>(end - start).count();
}

/// Seconds since `start`.
inline double seconds_since(Clock::time_point start) { return seconds_between(start, Clock::now()); }

/// The time point `seconds` from now, as a deadline for waits.
inline Clock::time_point deadline_in(double seconds) {
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

}  // namespace dptrain
