#pragma once

#include <span>

#include "tensor/tensor.h"

namespace dptrain::ops::cpu {

void orthogonalize_columns(std::span<const Tensor> matrices);
void renew_directions(std::span<const Tensor> directions, std::span<const Tensor> found);

}  // namespace dptrain::ops::cpu
