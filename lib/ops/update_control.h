#pragma once

#include "tensor/tensor.h"

namespace dptrain::ops {

/// Values that an update reads on its device when it runs, not when it is enqueued, so that a GPU's recorded step can
/// run again with other values. Undefined tensors have no effect.
struct UpdateControl {
  Tensor gradient_factor = {};  ///< f32 [1], multiplies the gradients first
  // On GPUs only:
  Tensor learning_rate = {};  ///< f32 [1], replaces the option of this name
  Tensor step = {};           ///< i32 [1], replaces the option of this name
  Tensor skip = {};           ///< i32 [1]; if not 0, nothing changes
  Tensor skipped = {};        ///< i64 [1], earlier steps that changed nothing
};

}  // namespace dptrain::ops
