#pragma once

#include "ops/attention.h"

namespace dptrain::ops::cuda {

// Scores and probabilities are [N * H, S, S]. A row, [S], holds the numbers that one query has for every key, in one
// head of one sample. `in` and `options` give lengths, heads, scale and dropout.

/// Computes `probabilities` from `scores`, the f32 products of queries and keys, and `dropped`, the probabilities after
/// dropout. `dropped` isn't written if dropout's threshold is 0.
void attention_softmax(const AttentionInputs& in, const AttentionOptions& options, const Tensor& scores,
                       const Tensor& probabilities, const Tensor& dropped);

/// Computes `score_gradients`, the gradients of the products of queries and keys, from `probabilities` and
/// `dropped_gradients`, the f32 gradients of the probabilities after dropout. Writes `dropped` again, unless dropout's
/// threshold is 0.
void attention_softmax_backward(const AttentionInputs& in, const AttentionOptions& options, const Tensor& probabilities,
                                const Tensor& dropped_gradients, const Tensor& score_gradients, const Tensor& dropped);

/// split_heads copies [N, S, H * D] to heads of [N * H, S, D]; merge_heads copies them back.
Tensor split_heads(const Tensor& x, int64_t heads);
Tensor merge_heads(const Tensor& x, const Shape& shape, int64_t heads);

}  // namespace dptrain::ops::cuda
