#pragma once

#include "ops/attention.h"

namespace dptrain::ops::cuda {

// Tensors of rows: a row, [S], is what one query of one head of one sample has for every key: [N * H, S, S] in all.
// `in` and `options` say lengths, heads, scale and dropout.

/// From the products of queries and keys, f32: `probabilities`, and `dropped`, which are the same after dropout.
/// Where dropout's threshold is 0 `dropped` isn't written.
void attention_softmax(const AttentionInputs& in, const AttentionOptions& options, const Tensor& scores,
                       const Tensor& probabilities, const Tensor& dropped);

/// From the probabilities and the gradients of what was made of them by dropout, f32: the gradients of the products of
/// queries and keys, and `dropped` once more.
void attention_softmax_backward(const AttentionInputs& in, const AttentionOptions& options, const Tensor& probabilities,
                                const Tensor& dropped_gradients, const Tensor& score_gradients, const Tensor& dropped);

/// [N, S, H * D] to heads of [N * H, S, D], and back.
Tensor split_heads(const Tensor& x, int64_t heads);
Tensor merge_heads(const Tensor& x, const Shape& shape, int64_t heads);

}  // namespace dptrain::ops::cuda
