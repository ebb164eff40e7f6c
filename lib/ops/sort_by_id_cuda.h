#pragma once

#include "tensor/tensor.h"

namespace dptrain::ops::cuda {

/// Positions in the order of their ids, of equal ids the earlier first.
struct SortedPositions {
  Tensor order;   ///< i32 [T]: order[i] is the position that comes i-th
  Tensor sorted;  ///< i32 [T]: its id
};

/// Sorts the positions of `ids`, i32 of T elements, each 0 to `bound` - 1: by radix, from the lowest digit up, T times
/// the digits of `bound`. Nothing is added atomically, so that the result is the same on every run.
SortedPositions sort_by_id(const Tensor& ids, int64_t bound);

}  // namespace dptrain::ops::cuda
