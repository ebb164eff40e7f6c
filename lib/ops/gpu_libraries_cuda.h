#pragma once

#include "base/library_version.h"

namespace dptrain::ops::cuda {

LibraryVersion cudnn_library();
LibraryVersion cublaslt_library();

}  // namespace dptrain::ops::cuda
