// D = epilogue(alpha op(A) op(B) + beta C) on the host, as cublasLtMatmul defines it.
#pragma once

#include <cublasLt.h>

#include <cstdint>

namespace dptrain::cuda_sim {

struct MatrixLayout {
  std::uint32_t type = 0;
  std::uint32_t order = CUBLASLT_ORDER_COL;
  std::uint64_t rows = 0;
  std::uint64_t cols = 0;
  std::int64_t ld = 0;
  std::int32_t batch = 1;
  std::int64_t batch_stride = 0;  // in elements

  std::uint64_t index(std::uint64_t i, std::uint64_t j) const {
    return order == CUBLASLT_ORDER_COL ? i + j * static_cast<std::uint64_t>(ld)
                                       : i * static_cast<std::uint64_t>(ld) + j;
  }
};

struct Epilogue {
  std::uint32_t kind = CUBLASLT_EPILOGUE_DEFAULT;
  void* bias = nullptr;  // or the bias gradient
  std::int64_t bias_stride = 0;
  void* aux = nullptr;
  std::int64_t aux_ld = 0;
  std::int64_t aux_stride = 0;
};

struct Matmul {
  MatrixLayout a, b, c, d;
  bool transpose_a = false, transpose_b = false;
  bool tf32 = false;  // inputs are rounded to TF32
  float alpha = 1, beta = 0;
  const void* a_data = nullptr;
  const void* b_data = nullptr;
  const void* c_data = nullptr;
  void* d_data = nullptr;
  Epilogue epilogue;
};

std::uint64_t element_bytes(std::uint32_t type);
void run_matmul(const Matmul& matmul);

}  // namespace dptrain::cuda_sim
