#pragma once

#include "ops/two_bit.h"

namespace dptrain::ops::cpu {

void two_bit_threshold(const Tensor& values, double share, const Tensor& threshold);
void two_bit_encode(const Tensor& values, const Tensor& threshold, const Tensor& words);
void two_bit_decode(const TwoBitMessages& messages, const Tensor& sum);

}  // namespace dptrain::ops::cpu
