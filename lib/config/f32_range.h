#pragma once

namespace dptrain {

/// The largest value for a number that is computed with in f32. f32's own largest value is 3.4e38. The margin allows
/// for a rate that is scaled by the samples of a batch.
constexpr double kMostF32 = 1e30;
/// The least value for a number that must be greater than 0 in f32, too.
constexpr double kLeastF32 = 1e-30;

}  // namespace dptrain
