#pragma once

#include <utility>

#include "tensor/tensor.h"

namespace dptrain::ops {

/// A gradient in one part, `first`, or in two parts that are not added up yet, for an operator that reads it anyway and
/// adds on the way. If several operators have read a value, `first` and `second` are the sum of the earlier gradients
/// and the last one.
struct SummedGradient {
  SummedGradient() = default;
  SummedGradient(Tensor one) : first(std::move(one)) {}
  SummedGradient(Tensor one, Tensor other) : first(std::move(one)), second(std::move(other)) {}

  Tensor first;
  Tensor second;  ///< in the shape and type of `first`, in any layout; undefined: none

  /// Returns the sum in the layout of `first`, and in its memory if nothing else holds that. A gradient may be shared:
  /// both inputs of an addition get the same one.
  Tensor sum() &&;
};

}  // namespace dptrain::ops
