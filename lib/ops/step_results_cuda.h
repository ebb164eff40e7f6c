#pragma once

#include "tensor/tensor.h"

namespace dptrain::ops::cuda {

void stamp_time(const Tensor& stamps, int64_t at);
void add_lap(const Tensor& laps, int64_t at);
void publish(const Tensor& bytes, const Tensor& address);

}  // namespace dptrain::ops::cuda
