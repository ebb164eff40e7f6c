#pragma once

#include "base/library_version.h"

namespace dptrain::ops::cuda {

LibraryVersion cudnn_library();
LibraryVersion cublaslt_library();
/// Loads cuBLASLt. Throws 71, naming the reason, if it can't be loaded.
void require_cublaslt();
/// Throws 71 if cuDNN's parts have different versions, or if cuDNN is for another major version of CUDA.
void require_whole_cudnn();

}  // namespace dptrain::ops::cuda
