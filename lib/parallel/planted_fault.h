#pragma once

#include <array>
#include <string_view>

namespace dptrain::parallel {

/// A mistake that strategies make on purpose: what `verify` has to find. For tests of it alone.
enum class PlantedFault {
  none,
  divided_twice,  ///< gradients are divided by the number of ranks once more
  /// Ranks apply their own part of what would be the last sum over them: ddp's last bucket, kvstore's first key,
  /// hybrid's first stage, data_parallel's only sum.
  bucket_left_out,
  local_statistics,   ///< batch norms are local, whatever was asked for
  boundary_gradient,  ///< a pipeline's stages drop the gradient that comes back to them
};

/// By their numbers.
inline constexpr std::array<std::string_view, 5> kPlantedFaultNames = {"none", "divided_twice", "bucket_left_out",
                                                                       "local_statistics", "boundary_gradient"};

}  // namespace dptrain::parallel
