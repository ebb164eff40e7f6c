#pragma once

#include <cublasLt.h>

/// The functions of cuBLASLt that are called here, by their names without what all begin with.
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

/// Of the library, which the first call loads: its half a gigabyte takes longer to load than all else that a program
/// starts with, and without a GPU nobody calls it. Throws 71 where it can't be loaded; the next call tries again.
const CublasLt& cublaslt();

}  // namespace dptrain::ops::cuda
