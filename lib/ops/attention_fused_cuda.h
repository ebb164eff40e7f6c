#pragma once

#include "ops/attention.h"

namespace dptrain::ops::cuda {

// Attention in bf16 and f16 that keeps no probabilities. Our own kernels multiply tiles of heads on tensor cores and
// hold the scores in shared memory (Dao et al., "FlashAttention", 2022). `kept` is the logarithm of each row's sum of
// exponentials, f32 [N, H, S], as on a CPU worker. Every sum has a fixed order, so that every run gives the same bits.

/// in.query: bf16 or f16, at least one element, heads of at most kWidestFusedHead columns.
AttentionForward fused_attention_forward(const AttentionInputs& in, const AttentionOptions& options);
AttentionGradients fused_attention_backward(const AttentionInputs& in, const AttentionForward& forward,
                                            const Tensor& incoming, const AttentionOptions& options);

}  // namespace dptrain::ops::cuda
