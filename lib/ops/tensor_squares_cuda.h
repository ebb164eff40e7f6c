#pragma once

#include "ops/tensor_table.h"

namespace dptrain::ops::cuda {

void tensor_squares(const Tensor& first, const Tensor& second, const TensorTable& table, const Tensor& squares);

}  // namespace dptrain::ops::cuda
