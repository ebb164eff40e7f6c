#pragma once

#include "ops/attention.h"

namespace dptrain::ops::cpu {

AttentionForward attention_forward(const AttentionInputs& in, const AttentionOptions& options);
AttentionGradients attention_backward(const AttentionInputs& in, const AttentionForward& forward,
                                      const Tensor& incoming, const AttentionOptions& options);

}  // namespace dptrain::ops::cpu
