// The contents of cublasLt's opaque descriptors in the simulator. A matrix layout is the one that matmul.h computes
// with.
#pragma once

#include <cublasLt.h>

#include <array>
#include <cstdint>
#include <string>

#include "matmul.h"

namespace dptrain::cuda_sim {

using Alignments = std::array<std::uint32_t, 4>;  // bytes, of A, B, C, D

struct MatmulDesc {
  std::uint32_t compute = 0;
  std::uint32_t scale = 0;
  std::uint32_t transpose_a = CUBLAS_OP_N, transpose_b = CUBLAS_OP_N, transpose_c = CUBLAS_OP_N;
  std::uint32_t pointer_mode = CUBLASLT_POINTER_MODE_HOST;
  std::int32_t bias_type = -1, aux_type = -1;
  std::int32_t multiprocessors = 0;
  Epilogue epilogue;
};
struct Preference {
  std::uint64_t workspace_bytes = 0;
  Alignments alignments = {256, 256, 256, 256};
  std::uint32_t ignored = 0;
};

static_assert(sizeof(MatmulDesc) <= sizeof(cublasLtMatmulDescOpaque_t));
static_assert(sizeof(MatrixLayout) <= sizeof(cublasLtMatrixLayoutOpaque_t));
static_assert(sizeof(Preference) <= sizeof(cublasLtMatmulPreferenceOpaque_t));

inline MatmulDesc& of(cublasLtMatmulDesc_t desc) { return *reinterpret_cast<MatmulDesc*>(desc); }
inline MatrixLayout& of(cublasLtMatrixLayout_t layout) { return *reinterpret_cast<MatrixLayout*>(layout); }
inline Preference& of(cublasLtMatmulPreference_t preference) { return *reinterpret_cast<Preference*>(preference); }

// Returns `status` and prints a line on stderr.
cublasStatus_t refuse(cublasStatus_t status, const std::string& why);

}  // namespace dptrain::cuda_sim
