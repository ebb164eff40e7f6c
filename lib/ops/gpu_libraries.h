#pragma once

#include <vector>

#include "base/library_version.h"

namespace dptrain::ops {

/// The libraries by which operators compute on GPUs; none where CUDA isn't built in.
std::vector<LibraryVersion> gpu_libraries();

}  // namespace dptrain::ops
