#pragma once

#include "ops/loss_scale.h"
#include "ops/update_control.h"

namespace dptrain::optim {

/// A loss scale as a checkpoint holds it.
struct LossScaleNumbers {
  float scale = 65536;
  int32_t good = 0;     ///< steps since it last changed
  int64_t skipped = 0;  ///< steps since the beginning
};

/// The dynamic loss scale of one replica in fp16: begins at 2^16, halves where gradients overflow and skips that step,
/// doubles after 2000 steps that didn't. Lives on the device.
class LossScale {
 public:
  explicit LossScale(Device& device);

  /// What the loss's gradient is multiplied by, f32 [1].
  const Tensor& factor() const { return state_.scale; }
  /// Looks at the step's complete gradients; the update that follows is to read the control.
  void look_at(const Tensor& gradients) { ops::find_nonfinite(gradients, state_.found); }
  /// What it found, i32 [1]: not 0 where the step is to be skipped. Of a model in parts that is found by all of them
  /// together.
  const Tensor& found() const { return state_.found; }
  void fill(ops::UpdateControl& control) const {
    control.gradient_factor = state_.inverse;
    control.skip = state_.found;
    control.skipped = state_.skipped;
  }
  /// After the update.
  void adapt() { ops::update_loss_scale(state_, 2000); }

  /// All of it, flat, for ranks that keep it alike.
  const Tensor& block() const { return block_; }
  LossScaleNumbers numbers() const;  ///< Blocks.
  void set(const LossScaleNumbers& numbers);

 private:
  Tensor block_;
  ops::LossScaleState state_;
};

}  // namespace dptrain::optim
