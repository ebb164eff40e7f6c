#pragma once

#include <cstdint>

namespace dptrain::ops {

/// A maximum's place in its window is stored in a byte. This value means that a ReLU cut the maximum off, so that no
/// gradient flows.
inline constexpr uint8_t kNoPlace = 255;
/// The largest window side for which each place fits a byte and differs from kNoPlace.
inline constexpr int64_t kLargestWindowOfPlaces = 15;

}  // namespace dptrain::ops
