// cublasLtMatmul against naive loops, its epilogues and its refusals.
#include <cublasLt.h>
#include <cuda_bf16.h>

#include <cmath>

#include "machine.h"

namespace {

struct Problem {
  std::size_t m, n, k;
  cublasOperation_t op_a = CUBLAS_OP_N, op_b = CUBLAS_OP_N;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  void* bias = nullptr;
  void* aux = nullptr;
  std::int64_t aux_ld = 0;
  cudaDataType_t type = CUDA_R_32F;
  cublasLtOrder_t order = CUBLASLT_ORDER_COL;
  std::int64_t ld_d = 0;  // 0: packed
};

cublasStatus_t multiply(const Problem& p, const void* a, const void* b, float* d, float beta = 0) {
  cublasLtHandle_t handle = nullptr;
  cublasLtCreate(&handle);
  cublasLtMatmulDesc_t desc = nullptr;
  cublasLtMatmulDescCreate(&desc, CUBLAS_COMPUTE_32F, CUDA_R_32F);
  cublasLtMatmulDescSetAttribute(desc, CUBLASLT_MATMUL_DESC_TRANSA, &p.op_a, sizeof(p.op_a));
  cublasLtMatmulDescSetAttribute(desc, CUBLASLT_MATMUL_DESC_TRANSB, &p.op_b, sizeof(p.op_b));
  cublasLtMatmulDescSetAttribute(desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &p.epilogue, sizeof(p.epilogue));
  cublasLtMatmulDescSetAttribute(desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &p.bias, sizeof(p.bias));
  cublasLtMatmulDescSetAttribute(desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, &p.aux, sizeof(p.aux));
  cublasLtMatmulDescSetAttribute(desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, &p.aux_ld, sizeof(p.aux_ld));
  const bool col = p.order == CUBLASLT_ORDER_COL;
  cublasLtMatrixLayout_t layouts[3];
  const auto layout = [&](int i, cudaDataType_t type, std::size_t rows, std::size_t cols) {
    cublasLtMatrixLayoutCreate(&layouts[i], type, rows, cols, static_cast<std::int64_t>(col ? rows : cols));
    cublasLtMatrixLayoutSetAttribute(layouts[i], CUBLASLT_MATRIX_LAYOUT_ORDER, &p.order, sizeof(p.order));
  };
  layout(0, p.type, p.op_a == CUBLAS_OP_N ? p.m : p.k, p.op_a == CUBLAS_OP_N ? p.k : p.m);
  layout(1, p.type, p.op_b == CUBLAS_OP_N ? p.k : p.n, p.op_b == CUBLAS_OP_N ? p.n : p.k);
  layout(2, CUDA_R_32F, p.m, p.n);
  if (p.ld_d != 0) cublasLtMatrixLayoutSetAttribute(layouts[2], CUBLASLT_MATRIX_LAYOUT_LD, &p.ld_d, sizeof(p.ld_d));
  const float alpha = 1;
  cublasLtMatmulHeuristicResult_t result{};
  int found = 0;
  cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(handle, desc, layouts[0], layouts[1], layouts[2], layouts[2],
                                                         nullptr, 1, &result, &found);
  if (status == CUBLAS_STATUS_SUCCESS) {
    status = cublasLtMatmul(handle, desc, &alpha, a, layouts[0], b, layouts[1], &beta, d, layouts[2], d, layouts[2],
                            &result.algo, nullptr, 0, nullptr);
  }
  for (cublasLtMatrixLayout_t each : layouts) cublasLtMatrixLayoutDestroy(each);
  cublasLtMatmulDescDestroy(desc);
  cublasLtDestroy(handle);
  return status;
}

std::vector<float> integers(std::size_t n, int seed) {
  std::vector<float> x(n);
  for (std::size_t i = 0; i < n; ++i) x[i] = static_cast<float>((static_cast<int>(i) * 7 + seed) % 11 - 5);
  return x;
}

// Row-major [rows, cols], optionally read transposed.
float at(const std::vector<float>& x, std::size_t i, std::size_t j, std::size_t ld, bool transpose) {
  return transpose ? x[j * ld + i] : x[i * ld + j];
}

TEST(CublasLt, RowMajorByExchangingTheFactors) {
  for (const bool ta : {false, true}) {
    for (const bool tb : {false, true}) {
      for (const bool by_order : {false, true}) {
        const std::size_t m = 37, n = 141, k = 19;
        const std::vector<float> a = integers(m * k, 1), b = integers(k * n, 2);
        Array<float> da(a), db(b), dc(m * n);
        const auto op = [](bool t) { return t ? CUBLAS_OP_T : CUBLAS_OP_N; };
        if (by_order) {
          const Problem p{.m = m, .n = n, .k = k, .op_a = op(ta), .op_b = op(tb), .order = CUBLASLT_ORDER_ROW};
          ASSERT_EQ(multiply(p, da.data, db.data, dc.data), CUBLAS_STATUS_SUCCESS);
        } else {
          const Problem p{.m = n, .n = m, .k = k, .op_a = op(tb), .op_b = op(ta)};
          ASSERT_EQ(multiply(p, db.data, da.data, dc.data), CUBLAS_STATUS_SUCCESS);
        }
        const std::vector<float> c = dc.read();
        for (std::size_t i = 0; i < m; ++i) {
          for (std::size_t j = 0; j < n; ++j) {
            float sum = 0;
            for (std::size_t q = 0; q < k; ++q) sum += at(a, i, q, ta ? m : k, ta) * at(b, q, j, tb ? k : n, tb);
            ASSERT_EQ(c[i * n + j], sum) << i << ' ' << j;
          }
        }
      }
    }
  }
}

TEST(CublasLt, EpiloguesOfALayerAndItsGradient) {
  const std::size_t m = 8, n = 5, k = 3;
  const std::vector<float> a = integers(m * k, 1), b = integers(k * n, 2), bias = integers(m, 3);
  Array<float> da(a), db(b), plain(m * n), out(m * n), dbias(bias), grad(m), sums(n);
  Array<std::uint8_t> mask(128 / 8 * n);
  ASSERT_EQ(multiply({.m = m, .n = n, .k = k}, da.data, db.data, plain.data), CUBLAS_STATUS_SUCCESS);
  Problem p{.m = m,
            .n = n,
            .k = k,
            .epilogue = CUBLASLT_EPILOGUE_RELU_AUX_BIAS,
            .bias = dbias.data,
            .aux = mask.data,
            .aux_ld = 128};
  ASSERT_EQ(multiply(p, da.data, db.data, out.data), CUBLAS_STATUS_SUCCESS);
  const std::vector<float> x = plain.read(), y = out.read();
  for (std::size_t i = 0; i < m * n; ++i) EXPECT_EQ(y[i], std::max(x[i] + bias[i % m], 0.0f));
  p.epilogue = CUBLASLT_EPILOGUE_DRELU_BGRAD;
  p.bias = grad.data;
  ASSERT_EQ(multiply(p, da.data, db.data, out.data), CUBLAS_STATUS_SUCCESS);
  std::vector<float> expected(m, 0.0f);
  const std::vector<float> dx = out.read();
  for (std::size_t i = 0; i < m * n; ++i) {
    EXPECT_EQ(dx[i], y[i] > 0 ? x[i] : 0.0f);
    expected[i % m] += dx[i];
  }
  EXPECT_EQ(grad.read(), expected);
  p = {.m = m, .n = n, .k = k, .op_b = CUBLAS_OP_T, .epilogue = CUBLASLT_EPILOGUE_BGRADB, .bias = sums.data};
  ASSERT_EQ(multiply(p, da.data, db.data, out.data), CUBLAS_STATUS_SUCCESS);
  for (std::size_t j = 0; j < n; ++j) EXPECT_EQ(sums.read()[j], b[j] + b[n + j] + b[2 * n + j]);
}

TEST(CublasLt, TakesBfloat16AndRoundsNothingElse) {
  const std::size_t n = 6;
  std::vector<__nv_bfloat16> a(n * n), b(n * n);
  for (std::size_t i = 0; i < n * n; ++i) {
    a[i] = __float2bfloat16_rn(static_cast<float>(i));
    b[i] = __float2bfloat16_rn(i % (n + 1) == 0 ? 1.0f : 0.0f);
  }
  Array<__nv_bfloat16> da(a), db(b);
  Array<float> d(std::vector<float>(n * n, 1.0f));
  ASSERT_EQ(multiply({.m = n, .n = n, .k = n, .type = CUDA_R_16BF}, da.data, db.data, d.data, 1.0f),
            CUBLAS_STATUS_SUCCESS);
  for (std::size_t i = 0; i < n * n; ++i) EXPECT_EQ(d.read()[i], static_cast<float>(i) + 1.0f);
}

TEST(CublasLt, Refuses) {
  Array<float> a(64), b(64), d(64);
  EXPECT_EQ(multiply({.m = 8, .n = 8, .k = 8, .ld_d = 7}, a.data, b.data, d.data), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(multiply({.m = 8, .n = 8, .k = 9}, a.data, b.data, d.data), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(multiply({.m = 4, .n = 4, .k = 4}, a.data + 1, b.data, d.data), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(multiply({.m = 8, .n = 8, .k = 8, .epilogue = CUBLASLT_EPILOGUE_RELU_AUX, .aux = a.data, .aux_ld = 8},
                     a.data, b.data, d.data),
            CUBLAS_STATUS_NOT_SUPPORTED);
  EXPECT_EQ(
      multiply(
          {.m = 8, .n = 8, .k = 8, .epilogue = CUBLASLT_EPILOGUE_BIAS, .bias = b.data, .order = CUBLASLT_ORDER_ROW},
          a.data, b.data, d.data),
      CUBLAS_STATUS_NOT_SUPPORTED);
  EXPECT_EQ(
      multiply({.m = 8, .n = 8, .k = 8, .epilogue = CUBLASLT_EPILOGUE_BGRADB, .bias = b.data}, a.data, b.data, d.data),
      CUBLAS_STATUS_NOT_SUPPORTED)
      << "B is not transposed";
  for (const cublasLtEpilogue_t epilogue : {CUBLASLT_EPILOGUE_DEFAULT, CUBLASLT_EPILOGUE_RELU})
    EXPECT_EQ(multiply({.m = 8, .n = 8, .k = 8, .epilogue = epilogue, .bias = b.data}, a.data, b.data, d.data),
              CUBLAS_STATUS_NOT_SUPPORTED)
        << "a bias that is not read";
}

}  // namespace
