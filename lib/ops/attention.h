#pragma once

#include "ops/dropout.h"
#include "tensor/tensor.h"

namespace dptrain::ops {

/// Inputs of multi-head scaled dot-product attention (Vaswani et al., 2017), with dropout on its probabilities:
///   y = dropout(softmax(query * key^T / sqrt(D))) * value, for each sample and head
/// query, key, value, y: [N, S, H * D], the outputs of three linear layers; a head is D neighboring columns.
struct AttentionInputs {
  Tensor query;
  Tensor key;
  Tensor value;
  /// i32 [N], 0 to S: each sample attends to its first lengths[n] keys, and all its queries ignore the later ones.
  /// Undefined: no key is masked. A sample without keys has an output of zeros.
  Tensor lengths = {};
};

struct AttentionOptions {
  int64_t heads = 1;
  float dropout = 0;  ///< the probability of dropping a probability
  /// The random draws equal those of dropout on a [N, H, S, S] tensor, so neither device nor batch changes what is
  /// dropped.
  DropoutKey key = {};
};

/// The output, and what backward reads besides the inputs. `kept` is the logarithm of each row's sum of exponentials,
/// f32 [N, H, S]. On a GPU it is instead the probabilities before dropout, [N, H, S, S] in the inputs' type, if they
/// are f32 or a head has more than 128 columns. `dropout_bits` (u8) has one bit per probability, set if dropout kept
/// it; each head's bits fill 2 * kept_words(S) bytes (attention_kernels.h).
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
