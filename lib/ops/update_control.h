#pragma once

#include "tensor/tensor.h"

namespace dptrain::ops {

/// What an update on a GPU reads when it runs rather than when it is given to the GPU, so that a recorded step can be
/// run again with other values. Undefined tensors stand for nothing.
struct UpdateControl {
  Tensor learning_rate = {};    ///< f32 [1], in place of the one given
  Tensor gradient_factor = {};  ///< f32 [1], what gradients are multiplied by first
  Tensor skip = {};             ///< i32 [1], not 0 where nothing is to change
};

}  // namespace dptrain::ops
