#pragma once

#include "ops/attention.h"

namespace dptrain::ops::cuda {

// Attention in bf16 and f16 that keeps no probabilities: kernels of our own multiply tiles of heads by tensor cores and
// hold the scores in shared memory (Dao et al., "FlashAttention", 2022). `kept` is the logarithm of each row's sum of
// exponentials, f32 [N, H, S], as on a CPU worker. Every sum has one order: equal bits on every run.

/// in.query: bf16 or f16, at least one element, heads of at most kWidestFusedHead columns.
AttentionForward fused_attention_forward(const AttentionInputs& in, const AttentionOptions& options);
AttentionGradients fused_attention_backward(const AttentionInputs& in, const AttentionForward& forward,
                                            const Tensor& incoming, const AttentionOptions& options);

}  // namespace dptrain::ops::cuda
