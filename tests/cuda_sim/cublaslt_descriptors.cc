// cublasLt's descriptors: made, set and destroyed.
#include "cublaslt_descriptors.h"

#include <cstdio>
#include <cstring>
#include <new>

using namespace dptrain::cuda_sim;

namespace dptrain::cuda_sim {
namespace {

template <typename T>
cublasStatus_t set(T& attribute, const void* value, std::size_t bytes) {
  if (value == nullptr || bytes != sizeof(T)) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&attribute, value, sizeof(T));
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace

cublasStatus_t refuse(cublasStatus_t status, const std::string& why) {
  std::fprintf(stderr, "cuda_sim: cublasLtMatmul: %s: %s\n", cublasLtGetStatusName(status), why.c_str());
  return status;
}

}  // namespace dptrain::cuda_sim

extern "C" {

const char* cublasLtGetStatusName(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS: return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_NOT_INITIALIZED: return "CUBLAS_STATUS_NOT_INITIALIZED";
    case CUBLAS_STATUS_ALLOC_FAILED: return "CUBLAS_STATUS_ALLOC_FAILED";
    case CUBLAS_STATUS_INVALID_VALUE: return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_ARCH_MISMATCH: return "CUBLAS_STATUS_ARCH_MISMATCH";
    case CUBLAS_STATUS_MAPPING_ERROR: return "CUBLAS_STATUS_MAPPING_ERROR";
    case CUBLAS_STATUS_EXECUTION_FAILED: return "CUBLAS_STATUS_EXECUTION_FAILED";
    case CUBLAS_STATUS_INTERNAL_ERROR: return "CUBLAS_STATUS_INTERNAL_ERROR";
    case CUBLAS_STATUS_NOT_SUPPORTED: return "CUBLAS_STATUS_NOT_SUPPORTED";
    default: return "CUBLAS_STATUS_LICENSE_ERROR";
  }
}
const char* cublasLtGetStatusString(cublasStatus_t status) { return cublasLtGetStatusName(status); }
size_t cublasLtGetVersion() { return CUBLAS_VERSION; }
size_t cublasLtGetCudartVersion() { return CUDART_VERSION; }

cublasStatus_t cublasLtMatmulDescInit_internal(cublasLtMatmulDesc_t desc, size_t size, cublasComputeType_t compute,
                                               cudaDataType_t scale) {
  if (size < sizeof(MatmulDesc)) return CUBLAS_STATUS_ALLOC_FAILED;
  auto* made = new (desc) MatmulDesc;
  made->compute = static_cast<std::uint32_t>(compute);
  made->scale = static_cast<std::uint32_t>(scale);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* desc, cublasComputeType_t compute, cudaDataType_t scale) {
  *desc = new cublasLtMatmulDescOpaque_t;
  return cublasLtMatmulDescInit(*desc, compute, scale);
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc) {
  delete desc;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, size_t bytes) {
  MatmulDesc& d = of(desc);
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_COMPUTE_TYPE: return set(d.compute, value, bytes);
    case CUBLASLT_MATMUL_DESC_SCALE_TYPE: return set(d.scale, value, bytes);
    case CUBLASLT_MATMUL_DESC_POINTER_MODE: return set(d.pointer_mode, value, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSA: return set(d.transpose_a, value, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSB: return set(d.transpose_b, value, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSC: return set(d.transpose_c, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE: return set(d.epilogue.kind, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER: return set(d.epilogue.bias, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE: return set(d.epilogue.bias_stride, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE: return set(d.bias_type, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER: return set(d.epilogue.aux, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD: return set(d.epilogue.aux_ld, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE: return set(d.epilogue.aux_stride, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE: return set(d.aux_type, value, bytes);
    case CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET: return set(d.multiprocessors, value, bytes);
    default: return refuse(CUBLAS_STATUS_INVALID_VALUE, "descriptor attribute " + std::to_string(attribute));
  }
}

cublasStatus_t cublasLtMatrixLayoutInit_internal(cublasLtMatrixLayout_t layout, size_t size, cudaDataType type,
                                                 uint64_t rows, uint64_t cols, int64_t ld) {
  if (size < sizeof(MatrixLayout)) return CUBLAS_STATUS_ALLOC_FAILED;
  auto* made = new (layout) MatrixLayout;
  made->type = static_cast<std::uint32_t>(type);
  made->rows = rows;
  made->cols = cols;
  made->ld = ld;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType type, uint64_t rows,
                                          uint64_t cols, int64_t ld) {
  *layout = new cublasLtMatrixLayoutOpaque_t;
  return cublasLtMatrixLayoutInit(*layout, type, rows, cols, ld);
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  delete layout;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute, const void* value,
                                                size_t bytes) {
  MatrixLayout& l = of(layout);
  switch (attribute) {
    case CUBLASLT_MATRIX_LAYOUT_TYPE: return set(l.type, value, bytes);
    case CUBLASLT_MATRIX_LAYOUT_ORDER: return set(l.order, value, bytes);
    case CUBLASLT_MATRIX_LAYOUT_ROWS: return set(l.rows, value, bytes);
    case CUBLASLT_MATRIX_LAYOUT_COLS: return set(l.cols, value, bytes);
    case CUBLASLT_MATRIX_LAYOUT_LD: return set(l.ld, value, bytes);
    case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT: return set(l.batch, value, bytes);
    case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET: return set(l.batch_stride, value, bytes);
    default: return refuse(CUBLAS_STATUS_INVALID_VALUE, "layout attribute " + std::to_string(attribute));
  }
}

cublasStatus_t cublasLtMatmulPreferenceInit_internal(cublasLtMatmulPreference_t preference, size_t size) {
  if (size < sizeof(Preference)) return CUBLAS_STATUS_ALLOC_FAILED;
  new (preference) Preference;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  *preference = new cublasLtMatmulPreferenceOpaque_t;
  return cublasLtMatmulPreferenceInit(*preference);
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  delete preference;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute, const void* value,
                                                    size_t bytes) {
  Preference& p = of(preference);
  switch (attribute) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES: return set(p.workspace_bytes, value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES: return set(p.alignments[0], value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES: return set(p.alignments[1], value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES: return set(p.alignments[2], value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES: return set(p.alignments[3], value, bytes);
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
    case CUBLASLT_MATMUL_PREF_SEARCH_MODE: return set(p.ignored, value, bytes);
    default: return refuse(CUBLAS_STATUS_INVALID_VALUE, "preference attribute " + std::to_string(attribute));
  }
}

}  // extern "C"
