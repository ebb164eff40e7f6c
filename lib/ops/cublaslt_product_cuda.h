#pragma once

#include "tensor/tensor.h"

namespace dptrain::ops::cuda {

/// What a product does beside multiplying.
enum class ProductEpilogue {
  none,
  bias,           ///< adds bias[column]
  relu,           ///< max(0, .)
  bias_relu,      ///< both
  bias_gradient,  ///< writes the sums of a's columns as it is read transposed: bias[i] = sum over k of a[k, i]
};

/// out [m, n] = a * b, matrices in row-major order: a is [m, k], or [k, m] read transposed; b is [k, n], or [n, k] read
/// transposed. a and b of one type, f32, bf16 or f16; out of that type or f32. Sums are in f32. With a dimension before
/// these, of equal size in all three, it is as many products; they take no epilogue.
struct Product {
  Tensor a;
  Tensor b;
  Tensor out;
  bool transpose_a = false;
  bool transpose_b = false;
  bool accumulate = false;  ///< out += a * b
  ProductEpilogue epilogue = ProductEpilogue::none;
  Tensor bias = {};  ///< read, of out's type and [n]; or written by `bias_gradient`, f32 and [m]
};

/// Gives the product to the device's stream, with the first that works of what cuBLASLt's heuristic proposes: the same
/// for the same shapes, alignments, GPU and version. Sums that it splits are added up by a pass of their own, in one
/// order. Planned once for each. False where cuBLASLt doesn't have it, with its epilogue, or refuses to run it. Throws
/// 71 for other failures.
bool try_multiply(const Product& product);

/// The same, where there is no other way. Throws 71, naming the product and cuBLASLt's reason.
void multiply(const Product& product);

}  // namespace dptrain::ops::cuda
