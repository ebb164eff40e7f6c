#include "matmul.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

namespace dptrain::cuda_sim {
namespace {

float load(const void* data, std::uint32_t type, std::uint64_t i) {
  if (type == CUDA_R_16BF) return __bfloat162float(static_cast<const __nv_bfloat16*>(data)[i]);
  if (type == CUDA_R_16F) return __half2float(static_cast<const __half*>(data)[i]);
  return static_cast<const float*>(data)[i];
}
void store(void* data, std::uint32_t type, std::uint64_t i, float value) {
  if (type == CUDA_R_16BF) {
    static_cast<__nv_bfloat16*>(data)[i] = __float2bfloat16_rn(value);
  } else if (type == CUDA_R_16F) {
    static_cast<__half*>(data)[i] = __float2half_rn(value);
  } else {
    static_cast<float*>(data)[i] = value;
  }
}

// Rounds to 10 bits of mantissa, to nearest even; NaN and infinity stay.
float to_tf32(float x) {
  if (!std::isfinite(x)) return x;
  const auto bits = std::bit_cast<std::uint32_t>(x);
  return std::bit_cast<float>((bits + 0xfff + (bits >> 13 & 1)) & ~0x1fffu);
}

// Returns op(matrix), packed row by row.
std::vector<float> unpack(const Matmul& m, const MatrixLayout& layout, const void* data, bool transpose,
                          std::uint64_t first) {
  const std::uint64_t rows = transpose ? layout.cols : layout.rows;
  const std::uint64_t cols = transpose ? layout.rows : layout.cols;
  std::vector<float> packed(rows * cols);
  for (std::uint64_t i = 0; i < rows; ++i) {
    for (std::uint64_t j = 0; j < cols; ++j) {
      const float x = load(data, layout.type, first + (transpose ? layout.index(j, i) : layout.index(i, j)));
      packed[i * cols + j] = m.tf32 ? to_tf32(x) : x;
    }
  }
  return packed;
}

constexpr std::uint64_t kColumns = 128;  // four rows of a tile are 2 KiB, which fits the first-level cache
constexpr std::uint64_t kDepth = 256;

// Computes out[rows, n] += a[rows, k] b[k, n] for up to four rows and kColumns columns.
template <int kRows>
void tile(const float* a, const float* b, float* out, std::uint64_t n, std::uint64_t k, std::uint64_t depth,
          std::uint64_t width) {
  float sums[kRows][kColumns] = {};
  for (std::uint64_t p = 0; p < depth; ++p) {
    const float* row = b + p * n;
    float factors[kRows];
    for (int r = 0; r < kRows; ++r) factors[r] = a[static_cast<std::uint64_t>(r) * k + p];
    for (std::uint64_t j = 0; j < width; ++j) {
      for (int r = 0; r < kRows; ++r) sums[r][j] += factors[r] * row[j];
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (std::uint64_t j = 0; j < width; ++j) out[static_cast<std::uint64_t>(r) * n + j] += sums[r][j];
  }
}

std::vector<float> multiply(const std::vector<float>& a, const std::vector<float>& b, std::uint64_t m, std::uint64_t n,
                            std::uint64_t k) {
  std::vector<float> out(m * n, 0.0f);
  for (std::uint64_t p = 0; p < k; p += kDepth) {
    for (std::uint64_t j = 0; j < n; j += kColumns) {
      const std::uint64_t depth = std::min(kDepth, k - p), width = std::min(kColumns, n - j);
      std::uint64_t i = 0;
      for (; i + 4 <= m; i += 4) tile<4>(&a[i * k + p], &b[p * n + j], &out[i * n + j], n, k, depth, width);
      for (; i < m; ++i) tile<1>(&a[i * k + p], &b[p * n + j], &out[i * n + j], n, k, depth, width);
    }
  }
  return out;
}

// The tanh form of GELU, which cuBLAS documents.
constexpr float kGeluScale = 0.7978845608028654f;  // sqrt(2 / pi)
float gelu(float x) { return 0.5f * x * (1.0f + std::tanh(kGeluScale * (x + 0.044715f * x * x * x))); }
float gelu_slope(float x) {
  const float t = std::tanh(kGeluScale * (x + 0.044715f * x * x * x));
  return 0.5f * (1.0f + t) + 0.5f * x * (1.0f - t * t) * kGeluScale * (1.0f + 3.0f * 0.044715f * x * x);
}

// Applies the point-wise part to D(i, j); `position` is the element's place in the auxiliary matrix.
float apply(const Matmul& m, float x, std::uint64_t i, std::uint64_t position, std::uint64_t bias_first) {
  const std::uint32_t kind = m.epilogue.kind;
  const bool aux = (kind & 128) != 0;
  auto* mask = static_cast<std::uint8_t*>(m.epilogue.aux) + position / 8;
  const auto bit = static_cast<std::uint8_t>(1u << position % 8);
  if ((kind & CUBLASLT_EPILOGUE_BIAS) != 0) x += load(m.epilogue.bias, m.d.type, bias_first + i);
  if ((kind & CUBLASLT_EPILOGUE_RELU) != 0) {
    if (aux) *mask = static_cast<std::uint8_t>(x > 0 ? *mask | bit : *mask & ~bit);
    return std::max(x, 0.0f);
  }
  if ((kind & CUBLASLT_EPILOGUE_GELU) != 0) {
    if (aux) store(m.epilogue.aux, m.d.type, position, x);
    return gelu(x);
  }
  if ((kind & 8) != 0) return (*mask & bit) != 0 ? x : 0.0f;
  if ((kind & 64) != 0) return x * gelu_slope(load(m.epilogue.aux, m.d.type, position));
  return x;
}

void store_vector(const Matmul& m, const std::vector<double>& values, std::uint64_t first) {
  for (std::uint64_t i = 0; i < values.size(); ++i) {
    store(m.epilogue.bias, m.d.type, first + i, static_cast<float>(values[i]));
  }
}

void run_one(const Matmul& m, std::int64_t batch) {
  const auto at = [batch](const MatrixLayout& l) { return static_cast<std::uint64_t>(batch * l.batch_stride); };
  const std::uint64_t rows = m.d.rows, cols = m.d.cols, depth = m.transpose_a ? m.a.rows : m.a.cols;
  const auto bias_first = static_cast<std::uint64_t>(batch * m.epilogue.bias_stride);
  const std::vector<float> a = unpack(m, m.a, m.a_data, m.transpose_a, at(m.a));
  const std::vector<float> b = unpack(m, m.b, m.b_data, m.transpose_b, at(m.b));
  const std::vector<float> product = multiply(a, b, rows, cols, depth);
  std::vector<double> bias_gradient(rows, 0.0);
  for (std::uint64_t j = 0; j < cols; ++j) {
    for (std::uint64_t i = 0; i < rows; ++i) {
      float x = m.alpha * product[i * cols + j];
      if (m.beta != 0) x += m.beta * load(m.c_data, m.c.type, at(m.c) + m.c.index(i, j));
      const auto position = static_cast<std::uint64_t>(batch * m.epilogue.aux_stride) + i +
                            j * static_cast<std::uint64_t>(m.epilogue.aux_ld);
      x = apply(m, x, i, position, bias_first);
      bias_gradient[i] += x;
      store(m.d_data, m.d.type, at(m.d) + m.d.index(i, j), x);
    }
  }
  if ((m.epilogue.kind & 16) != 0) store_vector(m, bias_gradient, bias_first);
  if (m.epilogue.kind == CUBLASLT_EPILOGUE_BGRADA) {
    std::vector<double> sums(rows, 0.0);
    for (std::uint64_t i = 0; i < rows; ++i) {
      for (std::uint64_t p = 0; p < depth; ++p) sums[i] += a[i * depth + p];
    }
    store_vector(m, sums, bias_first);
  }
  if (m.epilogue.kind == CUBLASLT_EPILOGUE_BGRADB) {
    std::vector<double> sums(cols, 0.0);
    for (std::uint64_t p = 0; p < depth; ++p) {
      for (std::uint64_t j = 0; j < cols; ++j) sums[j] += b[p * cols + j];
    }
    store_vector(m, sums, bias_first);
  }
}

}  // namespace

std::uint64_t element_bytes(std::uint32_t type) { return type == CUDA_R_32F ? 4 : 2; }

void run_matmul(const Matmul& matmul) {
  for (std::int64_t batch = 0; batch < matmul.d.batch; ++batch) run_one(matmul, batch);
}

}  // namespace dptrain::cuda_sim
