#pragma once

#include "tensor/tensor.h"

namespace dptrain::ops::cpu {

void orthogonalize_columns(const Tensor& matrix);
void renew_directions(const Tensor& directions, const Tensor& found);

}  // namespace dptrain::ops::cpu
