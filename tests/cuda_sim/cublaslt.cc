// cublasLt: descriptors, the checks of cublasLtMatmul, and its place in a stream. Source of the rules: cublasLt.h and
// the cuBLAS documentation, section "cublasLtMatmul()".
#include <cublasLt.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <new>
#include <type_traits>

#include "matmul.h"
#include "runtime.h"

using namespace dptrain::cuda_sim;

namespace dptrain::cuda_sim {
namespace {

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
  std::uint32_t alignment[4] = {256, 256, 256, 256};  // of A, B, C, D
  std::uint32_t ignored = 0;
};
// What the heuristic promised: kept in the opaque algorithm.
struct Algorithm {
  std::uint64_t magic = 0;
  std::uint64_t workspace_bytes = 0;
  std::uint32_t alignment[4] = {1, 1, 1, 1};
};
constexpr std::uint64_t kMagic = 0x6470747261696e31;
constexpr std::uint32_t kVectorBytes = 16;  // the widest access of a kernel, so the strictest alignment it needs

static_assert(sizeof(MatmulDesc) <= sizeof(cublasLtMatmulDescOpaque_t));
static_assert(sizeof(MatrixLayout) <= sizeof(cublasLtMatrixLayoutOpaque_t));
static_assert(sizeof(Preference) <= sizeof(cublasLtMatmulPreferenceOpaque_t));
static_assert(sizeof(Algorithm) <= sizeof(cublasLtMatmulAlgo_t));

MatmulDesc& of(cublasLtMatmulDesc_t desc) { return *reinterpret_cast<MatmulDesc*>(desc); }
MatrixLayout& of(cublasLtMatrixLayout_t layout) { return *reinterpret_cast<MatrixLayout*>(layout); }
Preference& of(cublasLtMatmulPreference_t preference) { return *reinterpret_cast<Preference*>(preference); }

cublasStatus_t refuse(cublasStatus_t status, const std::string& why) {
  std::fprintf(stderr, "cuda_sim: cublasLtMatmul: %s: %s\n", cublasLtGetStatusName(status), why.c_str());
  return status;
}

template <typename T>
cublasStatus_t set(T& attribute, const void* value, std::size_t bytes) {
  if (value == nullptr || bytes != sizeof(T)) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&attribute, value, sizeof(T));
  return CUBLAS_STATUS_SUCCESS;
}

std::string fault_of_shape(const char* name, const MatrixLayout& layout, std::uint64_t rows, std::uint64_t cols) {
  const auto show = [](std::uint64_t r, std::uint64_t c) { return std::to_string(r) + " x " + std::to_string(c); };
  if (layout.rows != rows || layout.cols != cols) {
    return std::string(name) + ": expected " + show(rows, cols) + ", got " + show(layout.rows, layout.cols);
  }
  const std::uint64_t least = layout.order == CUBLASLT_ORDER_COL ? layout.rows : layout.cols;
  if (layout.ld < static_cast<std::int64_t>(least)) {
    return std::string(name) + ": leading dimension: expected at least " + std::to_string(least) + ", got " +
           std::to_string(layout.ld);
  }
  return {};
}

std::string fault_of_shapes(const Matmul& m) {
  const std::uint64_t rows = m.d.rows, cols = m.d.cols, depth = m.transpose_a ? m.a.rows : m.a.cols;
  if (rows == 0 || cols == 0 || depth == 0) return "expected at least one row, column and term";
  for (const MatrixLayout* layout : {&m.a, &m.b, &m.c}) {
    if (layout->batch != m.d.batch) return "batch counts differ";
  }
  std::string why = fault_of_shape("A", m.a, m.transpose_a ? depth : rows, m.transpose_a ? rows : depth);
  if (why.empty()) why = fault_of_shape("B", m.b, m.transpose_b ? cols : depth, m.transpose_b ? depth : cols);
  if (why.empty()) why = fault_of_shape("C", m.c, rows, cols);
  if (why.empty()) why = fault_of_shape("D", m.d, rows, cols);
  return why;
}

std::string fault_of_types(const Matmul& m, const MatmulDesc& desc) {
  const bool single = m.a.type == CUDA_R_32F;
  if (m.a.type != m.b.type || (!single && m.a.type != CUDA_R_16F && m.a.type != CUDA_R_16BF)) {
    return "expected A and B both f32, f16 or bf16";
  }
  if (m.c.type != m.d.type || (m.d.type != CUDA_R_32F && m.d.type != m.a.type)) {
    return "expected C and D both f32 or both of A's type";
  }
  if (desc.scale != CUDA_R_32F) return "expected scale type f32";
  const bool plain = desc.compute == CUBLAS_COMPUTE_32F || desc.compute == CUBLAS_COMPUTE_32F_PEDANTIC;
  if (!plain && !(single && desc.compute == CUBLAS_COMPUTE_32F_FAST_TF32)) {
    return "expected compute type 32F, or 32F_FAST_TF32 for f32";
  }
  if (desc.pointer_mode != CUBLASLT_POINTER_MODE_HOST) return "expected alpha and beta in host memory";
  if (desc.transpose_c != CUBLAS_OP_N) return "expected C not transposed";
  for (const std::int32_t type : {desc.bias_type, desc.aux_type}) {
    if (type >= 0 && static_cast<std::uint32_t>(type) != m.d.type) return "expected bias and aux of D's type";
  }
  return {};
}

std::string fault_of_epilogue(const Matmul& m, bool with_pointers) {
  const Epilogue& e = m.epilogue;
  constexpr std::uint32_t kKnown[] = {
      CUBLASLT_EPILOGUE_DEFAULT,  CUBLASLT_EPILOGUE_RELU,        CUBLASLT_EPILOGUE_RELU_AUX,
      CUBLASLT_EPILOGUE_BIAS,     CUBLASLT_EPILOGUE_RELU_BIAS,   CUBLASLT_EPILOGUE_RELU_AUX_BIAS,
      CUBLASLT_EPILOGUE_DRELU,    CUBLASLT_EPILOGUE_DRELU_BGRAD, CUBLASLT_EPILOGUE_GELU,
      CUBLASLT_EPILOGUE_GELU_AUX, CUBLASLT_EPILOGUE_GELU_BIAS,   CUBLASLT_EPILOGUE_GELU_AUX_BIAS,
      CUBLASLT_EPILOGUE_DGELU,    CUBLASLT_EPILOGUE_DGELU_BGRAD, CUBLASLT_EPILOGUE_BGRADA,
      CUBLASLT_EPILOGUE_BGRADB};
  if (std::find(std::begin(kKnown), std::end(kKnown), e.kind) == std::end(kKnown)) return "unknown epilogue";
  if (e.kind == CUBLASLT_EPILOGUE_DEFAULT) return {};
  if (m.d.order != CUBLASLT_ORDER_COL) return "expected a column-major D with an epilogue";
  const bool vector =
      (e.kind & (CUBLASLT_EPILOGUE_BIAS | 16 | CUBLASLT_EPILOGUE_BGRADA | CUBLASLT_EPILOGUE_BGRADB)) != 0;
  if (with_pointers && vector && e.bias == nullptr) return "the epilogue needs a bias pointer";
  if ((e.kind & 128) == 0) return {};
  if (with_pointers && e.aux == nullptr) return "the epilogue needs an auxiliary pointer";
  const bool bits = (e.kind & (CUBLASLT_EPILOGUE_RELU | 8)) != 0;
  const std::int64_t multiple = bits ? 128 : 8;
  if (e.aux_ld % multiple != 0 || e.aux_stride % multiple != 0 || e.aux_ld < static_cast<std::int64_t>(m.d.rows)) {
    return "auxiliary leading dimension: expected a multiple of " + std::to_string(multiple) + " of at least " +
           std::to_string(m.d.rows) + ", got " + std::to_string(e.aux_ld);
  }
  return {};
}

cublasStatus_t check(const Matmul& m, const MatmulDesc& desc, bool with_pointers) {
  if (const std::string why = fault_of_shapes(m); !why.empty()) return refuse(CUBLAS_STATUS_INVALID_VALUE, why);
  for (const MatrixLayout* layout : {&m.a, &m.b, &m.c, &m.d}) {
    if (layout->order > CUBLASLT_ORDER_ROW) return refuse(CUBLAS_STATUS_NOT_SUPPORTED, "expected order COL or ROW");
  }
  if (const std::string why = fault_of_types(m, desc); !why.empty()) return refuse(CUBLAS_STATUS_NOT_SUPPORTED, why);
  if (const std::string why = fault_of_epilogue(m, with_pointers); !why.empty()) {
    return refuse(CUBLAS_STATUS_NOT_SUPPORTED, why);
  }
  return CUBLAS_STATUS_SUCCESS;
}

// The device must be able to reach the whole of it. `alignment`: what the algorithm was chosen for.
std::string fault_of_range(const char* name, const void* data, std::uint64_t bytes, std::uint64_t alignment) {
  std::size_t after = 0;
  const Allocation* allocation = find_allocation(data, &after);
  if (allocation == nullptr) return std::string(name) + ": expected device memory";
  if (bytes > after) {
    return std::string(name) + ": expected at least " + std::to_string(bytes) + " bytes to the allocation's end, got " +
           std::to_string(after);
  }
  if (reinterpret_cast<std::uintptr_t>(data) % alignment != 0) {
    return std::string(name) + ": expected alignment " + std::to_string(alignment) +
           " (an element's, or what the preference promised the heuristic)";
  }
  return {};
}

std::string fault_of_matrix(const char* name, const MatrixLayout& l, const void* data, std::uint32_t alignment) {
  if (data == nullptr) return std::string(name) + ": no pointer";
  const std::uint64_t last =
      l.index(l.rows - 1, l.cols - 1) + static_cast<std::uint64_t>((l.batch - 1) * l.batch_stride) + 1;
  const std::uint64_t element = element_bytes(l.type);
  return fault_of_range(name, data, last * element, std::max<std::uint64_t>(element, alignment));
}

std::string fault_of_memory(const Matmul& m, const Algorithm& algorithm) {
  std::string why = fault_of_matrix("A", m.a, m.a_data, algorithm.alignment[0]);
  if (why.empty()) why = fault_of_matrix("B", m.b, m.b_data, algorithm.alignment[1]);
  if (why.empty() && m.beta != 0) why = fault_of_matrix("C", m.c, m.c_data, algorithm.alignment[2]);
  if (why.empty()) why = fault_of_matrix("D", m.d, m.d_data, algorithm.alignment[3]);
  if (!why.empty()) return why;
  const Epilogue& e = m.epilogue;
  const std::uint64_t element = element_bytes(m.d.type);
  if ((e.kind & (CUBLASLT_EPILOGUE_BIAS | 16 | CUBLASLT_EPILOGUE_BGRADA | CUBLASLT_EPILOGUE_BGRADB)) != 0) {
    const std::uint64_t length = e.kind == CUBLASLT_EPILOGUE_BGRADB ? m.d.cols : m.d.rows;
    why = fault_of_range("bias", e.bias, length * element, element);
  }
  if (why.empty() && (e.kind & 128) != 0) {
    const bool bits = (e.kind & (CUBLASLT_EPILOGUE_RELU | 8)) != 0;
    const std::uint64_t last = static_cast<std::uint64_t>(e.aux_ld) * (m.d.cols - 1) + m.d.rows;
    why = fault_of_range("aux", e.aux, bits ? (last + 7) / 8 : last * element, kVectorBytes);
  }
  return why;
}

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
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES: return set(p.alignment[0], value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES: return set(p.alignment[1], value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES: return set(p.alignment[2], value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES: return set(p.alignment[3], value, bytes);
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
    case CUBLASLT_MATMUL_PREF_SEARCH_MODE: return set(p.ignored, value, bytes);
    default: return refuse(CUBLAS_STATUS_INVALID_VALUE, "preference attribute " + std::to_string(attribute));
  }
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
  const cublasStatus_t status = check(assemble(of(desc), of(a), of(b), of(c), of(d)), of(desc), false);
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  Algorithm algorithm;
  algorithm.magic = kMagic;
  const Preference chosen = preference != nullptr ? of(preference) : Preference{};
  algorithm.workspace_bytes = std::min<std::uint64_t>(chosen.workspace_bytes, 1024);
  for (int i = 0; i < 4; ++i) algorithm.alignment[i] = std::clamp<std::uint32_t>(chosen.alignment[i], 1, kVectorBytes);
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
  Matmul m = assemble(of(desc), of(a_layout), of(b_layout), of(c_layout), of(d_layout));
  if (const cublasStatus_t status = check(m, of(desc), true); status != CUBLAS_STATUS_SUCCESS) return status;
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
  std::string why = fault_of_memory(m, algorithm);
  if (why.empty() && workspace_bytes > 0) why = fault_of_range("workspace", workspace, workspace_bytes, kVectorBytes);
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
