#pragma once

#include <cstdint>

#include "tensor/tensor.h"

namespace dptrain::ops {

/// What decides which elements are dropped: the layer and, by sample, its number in the data set and the epoch. Not the
/// device, not the batch, not the layout.
struct DropoutKey {
  uint64_t seed = 0;
  uint32_t layer = 0;
  // On the tensor's device, where they are read when the mask is drawn: a recorded step is run again with others.
  Tensor epoch = {};       ///< i32 [1]
  Tensor sample_ids = {};  ///< i64, one for each sample of the tensor
  /// Of a tensor [R, E] that isn't whole: i32 [R], which rows of the whole one, [N, sequence, E], it holds. They drop
  /// what they drop there.
  Tensor rows = {};
  int64_t sequence = 0;
};

struct DropoutResult {
  Tensor y;
  Tensor mask;  ///< u8, an element each in storage order: 1 where it was kept
};

/// Below this word, of 32 random bits, an element is dropped.
uint32_t dropout_threshold(float probability);

/// What the others are multiplied by.
inline float dropout_scale(float probability) { return 1.f / (1.f - probability); }

/// Throws 70, naming the operator, unless x can be dropped from: see dropout_forward.
void require_dropout(const char* op, const Tensor& x, float probability, const DropoutKey& key);

/// Zeroes each element with `probability` and multiplies the others by 1 / (1 - probability) (Srivastava et al., 2014).
/// x: [N, ...] in any layout; 0 <= probability < 1.
DropoutResult dropout_forward(const Tensor& x, float probability, const DropoutKey& key);

/// The gradient with respect to x.
Tensor dropout_backward(const Tensor& mask, const Tensor& output_gradient, float probability);

}  // namespace dptrain::ops
