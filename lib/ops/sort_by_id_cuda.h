#pragma once

#include "tensor/tensor.h"

namespace dptrain::ops::cuda {

/// Positions sorted by id. Positions with the same id stay in order.
struct SortedPositions {
  Tensor order;   ///< i32 [T]: order[i] is the position that comes i-th
  Tensor sorted;  ///< i32 [T]: the id of position order[i]
};

/// Sorts the positions of `ids`, i32 of T elements, each 0 to `bound` - 1. It is a radix sort from the lowest digit up,
/// with T times as many steps as `bound` has digits. Nothing is added atomically, so that every run gives the same
/// result.
SortedPositions sort_by_id(const Tensor& ids, int64_t bound);

}  // namespace dptrain::ops::cuda
