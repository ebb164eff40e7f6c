#pragma once

#include "tensor/tensor.h"

namespace dptrain::ops::cpu {

void reorder_into(const Tensor& from, const Tensor& to);

}  // namespace dptrain::ops::cpu
