#pragma once

#include "ops/dropout.h"
#include "tensor/tensor.h"

namespace dptrain::ops {

/// Scaled dot-product attention by heads (Vaswani et al., 2017), with dropout on its probabilities:
///   y = dropout(softmax(query * key^T / sqrt(D))) * value, for each sample and head
/// query, key, value, y: [N, S, H * D], what three linear layers give; a head is D neighbouring columns.
struct AttentionInputs {
  Tensor query;
  Tensor key;
  Tensor value;
  /// i32 [N], 0 to S: keys past so many are masked out, of all queries of the sample; undefined: none is. A sample of
  /// no keys has zeros for its output.
  Tensor lengths = {};
};

struct AttentionOptions {
  int64_t heads = 1;
  float dropout = 0;  ///< the probability of dropping a probability
  /// Draws as dropout of a [N, H, S, S] tensor does: neither device nor batch changes what is dropped.
  DropoutKey key = {};
};

/// The output, and what backward reads beside the inputs: on a CPU worker the logarithm of each row's sum of
/// exponentials, f32 [N, H, S], and which probabilities dropout has kept, a bit each in rows of whole 16, u8; on a GPU
/// the probabilities before dropout, [N, H, S, S] in the inputs' type.
struct AttentionForward {
  Tensor y;
  Tensor kept;
  Tensor dropout_bits = {};  ///< undefined without dropout, and on a GPU
};

AttentionForward attention_forward(const AttentionInputs& in, const AttentionOptions& options);

struct AttentionGradients {
  Tensor query;
  Tensor key;
  Tensor value;
};

AttentionGradients attention_backward(const AttentionInputs& in, const AttentionForward& forward,
                                      const Tensor& output_gradient, const AttentionOptions& options);

}  // namespace dptrain::ops
