#pragma once

#include "tensor/tensor.h"

namespace dptrain::ops {

/// What an update reads on its device when it runs rather than when it is given to the device, so that a GPU's recorded
/// step can be run again with other values. Undefined tensors stand for nothing.
struct UpdateControl {
  Tensor gradient_factor = {};  ///< f32 [1], what gradients are multiplied by first
  // Of GPUs:
  Tensor learning_rate = {};  ///< f32 [1], in place of the one given
  Tensor step = {};           ///< i32 [1], in place of the one given
  Tensor skip = {};           ///< i32 [1], not 0 where nothing is to change
  Tensor skipped = {};        ///< i64 [1], steps before this one that changed nothing
};

}  // namespace dptrain::ops
