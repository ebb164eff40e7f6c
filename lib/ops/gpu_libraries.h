#pragma once

#include <vector>

#include "base/library_version.h"

namespace dptrain::ops {

/// Returns the libraries that operators use on GPUs; none if CUDA isn't built in.
std::vector<LibraryVersion> gpu_libraries();

/// Throws 71 if one of the libraries has another version than this program was built for, or mixes parts of several
/// versions.
void require_gpu_libraries();

}  // namespace dptrain::ops
