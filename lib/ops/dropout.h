#pragma once

#include <cstdint>

#include "tensor/tensor.h"

namespace dptrain::ops {

/// Decides which elements are dropped: the layer, the epoch, and each sample's number in the data set. Device, batch
/// and layout don't matter.
struct DropoutKey {
  uint64_t seed = 0;
  uint32_t layer = 0;
  // On the tensor's device; read when the mask is drawn, so that a recorded step can run again with other values.
  Tensor epoch = {};       ///< i32 [1]
  Tensor sample_ids = {};  ///< i64, one for each sample of the tensor
  /// For a tensor [R, E] that holds only some rows of [N, sequence, E]: i32 [R], the rows' numbers there. A row drops
  /// the same elements as in the whole tensor.
  Tensor rows = {};
  int64_t sequence = 0;
};

struct DropoutResult {
  Tensor y;
  Tensor mask;  ///< u8, one number per element in storage order: 1 if it was kept
};

/// Returns the threshold for 32 random bits: an element whose word is below it is dropped.
uint32_t dropout_threshold(float probability);

/// Factor of the kept elements.
inline float dropout_scale(float probability) { return 1.f / (1.f - probability); }

/// Throws 70, naming the operator, unless dropout_forward can be applied to x with these arguments.
void require_dropout(const char* op, const Tensor& x, float probability, const DropoutKey& key);

/// Zeroes each element with `probability` and multiplies the rest by 1 / (1 - probability) (Srivastava et al., 2014).
/// x: [N, ...] in any layout; 0 <= probability < 1.
DropoutResult dropout_forward(const Tensor& x, float probability, const DropoutKey& key);

/// Returns the gradient with respect to x.
Tensor dropout_backward(const Tensor& mask, const Tensor& output_gradient, float probability);

}  // namespace dptrain::ops
