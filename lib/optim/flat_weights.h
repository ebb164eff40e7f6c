#pragma once

#include <cstdint>
#include <vector>

#include "nn/model.h"
#include "ops/tensor_table.h"
#include "ops/update_groups.h"

namespace dptrain::optim {

/// Weights of a flat buffer that follow each other and are of one parameter of a model: all of it, or a part of it.
struct WeightRun {
  int64_t parameter = 0;  ///< its number in the model
  int64_t elements = 0;   ///< a multiple of 16, padding included
  int dimensions = 0;     ///< of the parameter
  ops::UpdateFactors factors = {};
};

/// What an optimizer reads and writes: windows of a model's flat buffers, all of them equally long.
struct FlatWeights {
  Tensor weights;      ///< f32
  Tensor gradients;    ///< f32; undefined where they are given with each step
  Tensor copies = {};  ///< in half precision, written with the new weights; undefined where the model computes in f32
  std::vector<WeightRun> runs = {};  ///< all of the weights, in order
  int64_t parameters = 0;            ///< of the model

  /// All of a placed model's.
  static FlatWeights of(const nn::Model& model);
  /// Elements [begin, end). Where both are multiples of 16, parts are updated in the same bits as the whole.
  FlatWeights range(int64_t begin, int64_t end) const;

  int64_t elements() const { return weights.elements(); }
};

/// The runs of all of a placed model's weights.
std::vector<WeightRun> weight_runs_of(const nn::Model& model);

/// The factors of these weights, on their device.
ops::UpdateGroups update_groups_of(const FlatWeights& flat);
/// Where the parameters of these weights lie, on their device. Those of one dimension, biases and the weights of norms,
/// adapt where `adapts_vectors`.
ops::TensorTable tensor_table_of(const FlatWeights& flat, bool adapts_vectors);

/// What an optimizer keeps for each of these weights, 0 at first.
Tensor zeros_like_weights(const FlatWeights& flat);

/// The elements of a flat buffer that stand from `begin` on for those of `range`; undefined where the buffer is.
Tensor range_like(const Tensor& range, const Tensor& whole, int64_t begin);

}  // namespace dptrain::optim
