#pragma once

#include "tensor/tensor.h"

namespace dptrain::ops::cpu {

/// A matrix of f32 as a factor of a product, whose rows or columns it gives: [count, depth], or [depth, count] where
/// depth runs `across` the rows in memory.
struct ProductFactor {
  ProductFactor(const Tensor& matrix, bool depth_across)
      : data(matrix.data<float>()),
        count(matrix.shape()[depth_across ? 1 : 0]),
        depth(matrix.shape()[depth_across ? 0 : 1]),
        stride(matrix.shape()[1]),
        across(depth_across) {}

  /// Where the part with counts from `begin` and depths from `from` on begins.
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
  /// Sums of 256 depths each are added up, which rounds less than one sum of all.
  bool in_blocks = false;
  bool accumulate = false;      ///< y += in place of y =; with `in_blocks` only
  double* left_sums = nullptr;  ///< += the sums of the left factor's rows, which must lie `across`
};

/// y = left * right, [left.count, right.count], by our own kernels, on all of the device's threads. An element's bits
/// depend on its own row and column alone.
void multiply(const ProductFactor& left, const ProductFactor& right, const Tensor& y, const ProductOptions& options);

}  // namespace dptrain::ops::cpu
