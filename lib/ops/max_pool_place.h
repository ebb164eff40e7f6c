#pragma once

#include <cstdint>

namespace dptrain::ops {

/// The place of a maximum in its window is a byte; this one says that a ReLU cut it and no gradient flows.
inline constexpr uint8_t kNoPlace = 255;
/// Windows up to this side have places of a byte each that none of them shares with kNoPlace.
inline constexpr int64_t kLargestWindowOfPlaces = 15;

}  // namespace dptrain::ops
