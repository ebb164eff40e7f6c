#include "cublaslt_checks.h"

#include <algorithm>

#include "runtime.h"

namespace dptrain::cuda_sim {
namespace {

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
  if (e.kind == CUBLASLT_EPILOGUE_DEFAULT) {
    return e.bias == nullptr ? std::string() : "a bias pointer is not allowed with an epilogue without bias";
  }
  if (m.d.order != CUBLASLT_ORDER_COL) return "expected a column-major D with an epilogue";
  const bool vector =
      (e.kind & (CUBLASLT_EPILOGUE_BIAS | 16 | CUBLASLT_EPILOGUE_BGRADA | CUBLASLT_EPILOGUE_BGRADB)) != 0;
  if (with_pointers && vector && e.bias == nullptr) return "the epilogue needs a bias pointer";
  if (!vector && e.bias != nullptr) return "a bias pointer is not allowed with an epilogue without bias";
  if (e.kind == CUBLASLT_EPILOGUE_BGRADB && !m.transpose_b) return "BGRADB only works with transposed B";
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

std::string fault_of_matrix(const char* name, const MatrixLayout& l, const void* data, std::uint32_t alignment) {
  if (data == nullptr) return std::string(name) + ": no pointer";
  const std::uint64_t last =
      l.index(l.rows - 1, l.cols - 1) + static_cast<std::uint64_t>((l.batch - 1) * l.batch_stride) + 1;
  const std::uint64_t element = element_bytes(l.type);
  return fault_of_range(name, data, last * element, std::max<std::uint64_t>(element, alignment));
}

}  // namespace

cublasStatus_t check_matmul(const Matmul& m, const MatmulDesc& desc, bool with_pointers) {
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

std::string fault_of_memory(const Matmul& m, const Alignments& alignments) {
  std::string why = fault_of_matrix("A", m.a, m.a_data, alignments[0]);
  if (why.empty()) why = fault_of_matrix("B", m.b, m.b_data, alignments[1]);
  if (why.empty() && m.beta != 0) why = fault_of_matrix("C", m.c, m.c_data, alignments[2]);
  if (why.empty()) why = fault_of_matrix("D", m.d, m.d_data, alignments[3]);
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

}  // namespace dptrain::cuda_sim
