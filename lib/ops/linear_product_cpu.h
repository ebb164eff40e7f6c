#pragma once

#include "tensor/tensor.h"

namespace dptrain::ops::cpu {

/// An f32 matrix as a factor of a product. It supplies the product's rows or columns: [count, depth], or [depth, count]
/// if the depth runs `across` the rows in memory.
struct ProductFactor {
  ProductFactor(const Tensor& matrix, bool depth_across)
      : data(matrix.data<float>()),
        count(matrix.shape()[depth_across ? 1 : 0]),
        depth(matrix.shape()[depth_across ? 0 : 1]),
        stride(matrix.shape()[1]),
        across(depth_across) {}

  /// Returns the start of the part with counts from `begin` and depths from `from` on.
  const float* at(int64_t begin, int64_t from) const {
    return data + (across ? from * stride + begin : begin * stride + from);
  }

  const float* data;
  int64_t count, depth, stride;
  bool across;
};

struct ProductOptions {
  const float* bias = nullptr;  ///< added to each row
  bool relu = false;            ///< max(0, .); not with `in_blocks`
  /// Sums over 256 depths each are added up, which rounds less than one long sum.
  bool in_blocks = false;
  bool accumulate = false;      ///< y += instead of y =; with `in_blocks` only
  double* left_sums = nullptr;  ///< += the sums of the left factor's rows, which must be `across`
};

/// Computes y = left * right, [left.count, right.count], with our own kernels on all of the device's threads. An
/// element's bits depend only on its own row and column.
void multiply(const ProductFactor& left, const ProductFactor& right, const Tensor& y, const ProductOptions& options);

}  // namespace dptrain::ops::cpu
