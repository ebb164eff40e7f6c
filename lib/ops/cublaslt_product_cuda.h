#pragma once

#include "tensor/tensor.h"

namespace dptrain::ops::cuda {

/// What a product does besides multiplying.
enum class ProductEpilogue {
  none,
  bias,           ///< adds bias[column]
  relu,           ///< max(0, .)
  bias_relu,      ///< bias, then relu
  bias_gradient,  ///< `a` is read transposed; writes bias[i] = sum over k of a[k, i]
};

/// Products of matrices in row-major order: out [m, n] = a * b. a is [m, k], or [k, m] if it is read transposed; b is
/// [k, n], or [n, k] if it is read transposed. a and b have one type: f32, bf16 or f16. out has that type or f32. Sums
/// are in f32. If all three have one more dimension of equal size in front, these are that many products, which take no
/// epilogue.
struct Product {
  Tensor a;
  Tensor b;
  Tensor out;
  bool transpose_a = false;
  bool transpose_b = false;
  bool accumulate = false;  ///< out += a * b
  ProductEpilogue epilogue = ProductEpilogue::none;
  Tensor bias = {};  ///< [n] of out's type, read; `bias_gradient`: f32 [m], written
};

/// Enqueues the product on the device's stream. It uses the first algorithm that works of those that cuBLASLt's
/// heuristic proposes, which are the same for the same shapes, alignments, GPU and version. If an algorithm splits
/// sums, a separate pass adds up the parts in one order. Each different product is planned once. Returns false if
/// cuBLASLt doesn't have the product with its epilogue, or refuses to run it. Throws 71 for other failures.
bool try_multiply(const Product& product);

/// Enqueues the product as try_multiply does. Throws 71, naming the product and cuBLASLt's reason, if that fails.
void multiply(const Product& product);

}  // namespace dptrain::ops::cuda
