#pragma once

namespace dptrain {

/// The largest value of a number that is computed with in f32, whose own largest is 3.4e38: a rate that is scaled by
/// the samples of a batch fits, too.
constexpr double kMostF32 = 1e30;
/// The least of one that must be over 0 in f32, too.
constexpr double kLeastF32 = 1e-30;

}  // namespace dptrain
