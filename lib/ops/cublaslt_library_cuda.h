#pragma once

#include <cublasLt.h>

/// The functions of cuBLASLt that are called here, by their names without the prefix "cublasLt".
#define DPTRAIN_CUBLASLT_FUNCTIONS(FUNCTION) \
  FUNCTION(GetVersion)                       \
  FUNCTION(GetStatusString)                  \
  FUNCTION(Create)                           \
  FUNCTION(Destroy)                          \
  FUNCTION(Matmul)                           \
  FUNCTION(MatmulAlgoGetHeuristic)           \
  FUNCTION(MatmulDescCreate)                 \
  FUNCTION(MatmulDescDestroy)                \
  FUNCTION(MatmulDescSetAttribute)           \
  FUNCTION(MatrixLayoutCreate)               \
  FUNCTION(MatrixLayoutDestroy)              \
  FUNCTION(MatrixLayoutSetAttribute)         \
  FUNCTION(MatmulPreferenceCreate)           \
  FUNCTION(MatmulPreferenceDestroy)          \
  FUNCTION(MatmulPreferenceSetAttribute)

namespace dptrain::ops::cuda {

struct CublasLt {
#define DPTRAIN_MEMBER(name) decltype(&::cublasLt##name) name = nullptr;
  DPTRAIN_CUBLASLT_FUNCTIONS(DPTRAIN_MEMBER)
#undef DPTRAIN_MEMBER
};

/// Returns the functions of the library, which the first call loads. Loading its half a gigabyte takes longer than
/// loading everything else at a program's start, and nobody needs it without a GPU. Throws 71 if it can't be loaded;
/// the next call tries again.
const CublasLt& cublaslt();

}  // namespace dptrain::ops::cuda
