#pragma once

#include <utility>

#include "tensor/tensor.h"

namespace dptrain::ops {

/// A gradient that comes in two parts, not added up yet, for an operator that reads it anyway and adds on the way: of a
/// value that several operators have read, what the earlier ones give back, and the last one. Else it is `first` alone.
struct SummedGradient {
  SummedGradient() = default;
  SummedGradient(Tensor one) : first(std::move(one)) {}
  SummedGradient(Tensor one, Tensor other) : first(std::move(one)), second(std::move(other)) {}

  Tensor first;
  Tensor second;  ///< of the shape and type of `first`, in any layout; undefined: nothing

  /// As one tensor, in the layout of `first`, and in its memory where nobody else holds that. A gradient may be shared:
  /// both inputs of an addition get the same one.
  Tensor sum() &&;
};

}  // namespace dptrain::ops
