#pragma once

#include <vector>

#include "base/library_version.h"

namespace dptrain::ops {

/// The libraries by which operators compute on GPUs; none where CUDA isn't built in.
std::vector<LibraryVersion> gpu_libraries();

/// Throws 71 where one of them isn't of the version that this program was built for, or is put together from several.
void require_gpu_libraries();

}  // namespace dptrain::ops
