#pragma once

#include "base/library_version.h"

namespace dptrain::ops::cuda {

LibraryVersion cudnn_library();
LibraryVersion cublaslt_library();
/// Loads it. Throws 71, saying why, where it can't be.
void require_cublaslt();
/// Throws 71 where cuDNN's parts are of different versions.
void require_whole_cudnn();

}  // namespace dptrain::ops::cuda
