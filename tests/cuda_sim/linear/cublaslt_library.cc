// The simulated GPU's cublasLt is part of the program: replaces lib/ops/cublaslt_library_cuda.cc.
#include "ops/cublaslt_library_cuda.h"

namespace dptrain::ops::cuda {

const CublasLt& cublaslt() {
#define DPTRAIN_TAKE(name) .name = &::cublasLt##name,
  static const CublasLt functions = {DPTRAIN_CUBLASLT_FUNCTIONS(DPTRAIN_TAKE)};
#undef DPTRAIN_TAKE
  return functions;
}

}  // namespace dptrain::ops::cuda
