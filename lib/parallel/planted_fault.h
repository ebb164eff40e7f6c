#pragma once

#include <array>
#include <string_view>

namespace dptrain::parallel {

/// A mistake that strategies make on purpose, for `verify` to find. Only tests of `verify` use it.
enum class PlantedFault {
  none,
  divided_twice,  ///< gradients are divided by the number of ranks a second time
  /// Ranks skip the last sum over them and apply their own part: ddp's last bucket, kvstore's first key, hybrid's first
  /// stage, data_parallel's only sum.
  bucket_left_out,
  local_statistics,   ///< batch norms use local statistics, whatever the configuration says
  boundary_gradient,  ///< a pipeline's stages drop the gradient that comes back to them
};

/// The names of the faults, by their numbers.
inline constexpr std::array<std::string_view, 5> kPlantedFaultNames = {"none", "divided_twice", "bucket_left_out",
                                                                       "local_statistics", "boundary_gradient"};

}  // namespace dptrain::parallel
