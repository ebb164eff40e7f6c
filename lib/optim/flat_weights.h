#pragma once

#include <cstdint>
#include <vector>

#include "nn/model.h"
#include "ops/tensor_table.h"
#include "ops/update_groups.h"

namespace dptrain::optim {

/// Consecutive weights of a flat buffer that belong to one parameter of a model: all of it, or a part of it.
struct WeightRun {
  int64_t parameter = 0;  ///< its number in the model
  int64_t elements = 0;   ///< a multiple of 16, padding included
  int dimensions = 0;     ///< of the parameter's shape
  ops::UpdateFactors factors = {};
};

/// What an optimizer reads and writes: windows of a model's flat buffers, all of the same length.
struct FlatWeights {
  Tensor weights;      ///< f32
  Tensor gradients;    ///< f32; undefined if each step is given its own
  Tensor copies = {};  ///< in half precision, written with the new weights; undefined if the model computes in f32
  std::vector<WeightRun> runs = {};  ///< all of the weights, in order
  int64_t parameters = 0;            ///< of the whole model

  /// All weights of a placed model.
  static FlatWeights of(const nn::Model& model);
  /// Elements [begin, end). If both are multiples of 16, updating the parts is bit-identical to updating the whole.
  FlatWeights range(int64_t begin, int64_t end) const;

  int64_t elements() const { return weights.elements(); }
};

/// The runs of all weights of a placed model.
std::vector<WeightRun> weight_runs_of(const nn::Model& model);

/// The update factors of these weights, on their device.
ops::UpdateGroups update_groups_of(const FlatWeights& flat);
/// Which parameter each of these weights belongs to, on their device. Parameters of one dimension, which are biases and
/// weights of norms, adapt only if `adapts_vectors`.
ops::TensorTable tensor_table_of(const FlatWeights& flat, bool adapts_vectors);

/// A state tensor of an optimizer for these weights, 0 at first.
Tensor zeros_like_weights(const FlatWeights& flat);

/// The window of `whole` that starts at `begin` and has the shape of `range`; undefined if `whole` is.
Tensor range_like(const Tensor& range, const Tensor& whole, int64_t begin);

}  // namespace dptrain::optim
