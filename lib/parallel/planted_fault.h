#pragma once

#include <array>
#include <string_view>

namespace dptrain::parallel {

/// A mistake that strategies make on purpose: what `verify` has to find. For tests of it alone.
enum class PlantedFault {
  none,
  divided_twice,      ///< ddp divides gradients by the number of ranks once more
  bucket_left_out,    ///< ddp never reduces its last bucket
  local_statistics,   ///< batch norms are local, whatever was asked for
  boundary_gradient,  ///< a pipeline's stages drop the gradient that comes back to them
};

/// By their numbers.
inline constexpr std::array<std::string_view, 5> kPlantedFaultNames = {"none", "divided_twice", "bucket_left_out",
                                                                       "local_statistics", "boundary_gradient"};

}  // namespace dptrain::parallel
