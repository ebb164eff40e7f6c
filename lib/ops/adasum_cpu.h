#pragma once

#include "ops/adasum.h"

namespace dptrain::ops::cpu {

void adasum_squares(const Tensor& first, const Tensor& second, const TensorTable& table, const Tensor& norms,
                    const Tensor& squares);
void adasum(const Tensor& first, const Tensor& second, const TensorTable& table, const Tensor& norms,
            const Tensor& squares);

}  // namespace dptrain::ops::cpu
