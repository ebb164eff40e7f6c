#pragma once

#include "tensor/tensor.h"

namespace dptrain::ops::cpu {

Tensor decode_images(const Tensor& bytes, const Tensor& table, const Tensor& ids, DType dtype);
Tensor gather_labels(const Tensor& values, const Tensor& ids);

}  // namespace dptrain::ops::cpu
