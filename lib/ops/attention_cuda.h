#pragma once

#include "ops/attention.h"

namespace dptrain::ops::cuda {

/// The most columns of a head that the kernels of attention_fused_cuda.h take.
inline constexpr int64_t kWidestFusedHead = 128;

/// Whether attention over heads of `width` columns uses the fused kernels. Their backward pass reads no probabilities,
/// only the logarithms of the rows' sums of exponentials: see AttentionForward.
inline bool fuses_attention(DType dtype, int64_t width) { return dtype != DType::f32 && width <= kWidestFusedHead; }

AttentionForward attention_forward(const AttentionInputs& in, const AttentionOptions& options);
AttentionGradients attention_backward(const AttentionInputs& in, const AttentionForward& forward,
                                      const Tensor& incoming, const AttentionOptions& options);

}  // namespace dptrain::ops::cuda
