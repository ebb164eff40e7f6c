// cublasLt: handles, the heuristic, and cublasLtMatmul's place in a stream.
#include <cublasLt.h>

#include <algorithm>
#include <cstring>

#include "cublaslt_checks.h"
#include "refusals.h"
#include "runtime.h"

using namespace dptrain::cuda_sim;

namespace dptrain::cuda_sim {
namespace {

// The heuristic's promise, stored in the opaque algorithm.
struct Algorithm {
  std::uint64_t magic = 0;
  std::uint64_t workspace_bytes = 0;
  Alignments alignments = {1, 1, 1, 1};
};
constexpr std::uint64_t kMagic = 0x6470747261696e31;
static_assert(sizeof(Algorithm) <= sizeof(cublasLtMatmulAlgo_t));

Matmul assemble(const MatmulDesc& desc, const MatrixLayout& a, const MatrixLayout& b, const MatrixLayout& c,
                const MatrixLayout& d) {
  Matmul m;
  m.a = a;
  m.b = b;
  m.c = c;
  m.d = d;
  m.transpose_a = desc.transpose_a != CUBLAS_OP_N;
  m.transpose_b = desc.transpose_b != CUBLAS_OP_N;
  m.tf32 = desc.compute == CUBLAS_COMPUTE_32F_FAST_TF32;
  m.epilogue = desc.epilogue;
  return m;
}

}  // namespace
}  // namespace dptrain::cuda_sim

struct cublasLtContext {
  int device = 0;
};

extern "C" {

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  Lock lock(runtime().mutex);
  if (usable() != cudaSuccess) return CUBLAS_STATUS_NOT_INITIALIZED;
  *handle = new cublasLtContext{caller().device};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  delete handle;
  return handle != nullptr ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_INITIALIZED;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int requested,
                                              cublasLtMatmulHeuristicResult_t results[], int* returned) {
  if (handle == nullptr || requested < 1 || results == nullptr || returned == nullptr) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  *returned = 0;
  const cublasStatus_t status = check_matmul(assemble(of(desc), of(a), of(b), of(c), of(d)), of(desc), false);
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  Algorithm algorithm;
  algorithm.magic = kMagic;
  const Preference chosen = preference != nullptr ? of(preference) : Preference{};
  algorithm.workspace_bytes = std::min<std::uint64_t>(chosen.workspace_bytes, 1024);
  for (std::size_t i = 0; i < chosen.alignments.size(); ++i)
    algorithm.alignments[i] = std::clamp<std::uint32_t>(chosen.alignments[i], 1, kVectorBytes);
  results[0] = {};
  std::memcpy(&results[0].algo, &algorithm, sizeof(algorithm));
  results[0].workspaceSize = algorithm.workspace_bytes;
  results[0].state = CUBLAS_STATUS_SUCCESS;
  results[0].wavesCount = 1.0f;
  *returned = 1;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void* alpha, const void* a,
                              cublasLtMatrixLayout_t a_layout, const void* b, cublasLtMatrixLayout_t b_layout,
                              const void* beta, const void* c, cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t* algo, void* workspace,
                              size_t workspace_bytes, cudaStream_t handle_of_stream) {
  Lock lock(runtime().mutex);
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (alpha == nullptr || beta == nullptr) return refuse(CUBLAS_STATUS_INVALID_VALUE, "alpha and beta are needed");
  if (of(desc).epilogue.kind != CUBLASLT_EPILOGUE_DEFAULT && refuses_fused()) return CUBLAS_STATUS_NOT_SUPPORTED;
  Matmul m = assemble(of(desc), of(a_layout), of(b_layout), of(c_layout), of(d_layout));
  if (const cublasStatus_t status = check_matmul(m, of(desc), true); status != CUBLAS_STATUS_SUCCESS) return status;
  m.alpha = *static_cast<const float*>(alpha);
  m.beta = *static_cast<const float*>(beta);
  m.a_data = a;
  m.b_data = b;
  m.c_data = c;
  m.d_data = d;
  Algorithm algorithm;
  if (algo != nullptr) {
    std::memcpy(static_cast<void*>(&algorithm), algo, sizeof(algorithm));
    if (algorithm.magic != kMagic) return refuse(CUBLAS_STATUS_INVALID_VALUE, "not an algorithm of the heuristic");
    if (workspace_bytes < algorithm.workspace_bytes) return refuse(CUBLAS_STATUS_INVALID_VALUE, "workspace too small");
  }
  std::string why = fault_of_memory(m, algorithm.alignments);
  constexpr std::uint64_t kWorkspaceAlignment = 256;
  if (why.empty() && workspace_bytes > 0) {
    why = fault_of_range("workspace", workspace, workspace_bytes, kWorkspaceAlignment);
  }
  if (why.empty() && m.beta != 0 && c == d && (m.c.ld != m.d.ld || m.c.order != m.d.order)) {
    why = "in place: expected C and D of one layout";
  }
  if (!why.empty()) return refuse(CUBLAS_STATUS_INVALID_VALUE, why);
  CUstream_st* stream = find_stream(handle_of_stream);
  if (stream == nullptr || stream->device != handle->device || stream->device != caller().device) {
    return refuse(CUBLAS_STATUS_EXECUTION_FAILED, "stream, handle and current device differ");
  }
  Work work;
  work.body = [m, workspace, bytes = std::min<std::size_t>(workspace_bytes, 1024)] {
    if (bytes > 0) std::memset(workspace, 0xff, bytes);  // another stream must not be using it
    run_matmul(m);
    return cudaSuccess;
  };
  if (usable() != cudaSuccess || submit(*stream, work) != cudaSuccess) return CUBLAS_STATUS_EXECUTION_FAILED;
  return CUBLAS_STATUS_SUCCESS;
}

}  // extern "C"
