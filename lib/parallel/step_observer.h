#pragma once

#include <cstdint>

#include "nn/model.h"

namespace dptrain::parallel {

/// Watches what a strategy's replicas compute in training steps, layer by layer. Called on the ranks' threads, possibly
/// by several at once. With an observer, no step is recorded (see StepRecorder).
class StepObserver {
 public:
  virtual ~StepObserver() = default;
  /// A pass has computed `output`, the output of a stage of its model. `sample_ids`: i64 [N] on the device, the numbers
  /// of the pass's samples.
  virtual void on_stage(const nn::Model& model, int stage, const Tensor& output, const Tensor& sample_ids) = 0;
  /// Called with elements of the model's flat gradients, from `begin` on. They are summed over all devices and not yet
  /// clipped; an optimizer is about to read them. Called on every rank that updates them.
  virtual void on_gradients(const nn::Model& model, const Tensor& gradients, int64_t begin) = 0;
};

}  // namespace dptrain::parallel
