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

/// The dynamic loss scale of one replica in fp16. It begins at 2^16. If gradients overflow, it is halved and the step
/// is skipped; after 2000 steps without an overflow it is doubled. Its numbers are on the device.
class LossScale {
 public:
  explicit LossScale(Device& device);

  /// The factor of the loss's gradient, f32 [1].
  const Tensor& factor() const { return state_.scale; }
  /// Looks for overflows in the step's complete gradients. The update that follows must use the control that `fill`
  /// fills.
  void look_at(const Tensor& gradients) { ops::find_nonfinite(gradients, state_.found); }
  void fill(ops::UpdateControl& control) const {
    control.gradient_factor = state_.inverse;
    control.skip = state_.found;
    control.skipped = state_.skipped;
  }
  /// What `look_at` has found, i32 [1]: not 0 if the step is to be skipped. Ranks that each looked at a part add these
  /// values up.
  const Tensor& found() const { return state_.found; }
  /// Adapts the scale; to be called after the update.
  void adapt() { ops::update_loss_scale(state_, 2000); }

  /// All numbers in one flat tensor, for ranks that must hold equal ones.
  const Tensor& block() const { return block_; }
  LossScaleNumbers numbers() const;  ///< Blocks.
  /// What an update on the host needs to know after `look_at`. `moment` blocks.
  struct Moment {
    float inverse = 1;  ///< the factor of gradients
    bool overflows = false;
    int64_t skipped = 0;  ///< steps before this one
  };
  Moment moment() const;
  void set(const LossScaleNumbers& numbers);

 private:
  Tensor block_;
  ops::LossScaleState state_;
};

}  // namespace dptrain::optim
