#pragma once

#include <cstdint>

#include "nn/model.h"
#include "ops/update_groups.h"

namespace dptrain::optim {

/// What an optimizer reads and writes: windows of a model's flat buffers, all of them equally long.
struct FlatWeights {
  Tensor weights;      ///< f32
  Tensor gradients;    ///< f32; undefined where they are given with each step
  Tensor copies = {};  ///< in half precision, written with the new weights; undefined where the model computes in f32
  ops::UpdateGroups groups;  ///< of the weights

  /// All of a placed model's.
  static FlatWeights of(const nn::Model& model);
  /// Elements [begin, end). Where both are multiples of 16, parts are updated in the same bits as the whole.
  FlatWeights range(int64_t begin, int64_t end) const;

  int64_t elements() const { return weights.elements(); }
};

/// The groups of a placed model's weights, on `device`, which an optimizer of these weights works on.
ops::UpdateGroups update_groups_of(const nn::Model& model, Device& device);

/// The elements of a flat buffer that stand from `begin` on for those of `range`; undefined where the buffer is.
Tensor range_like(const Tensor& range, const Tensor& whole, int64_t begin);

}  // namespace dptrain::optim
