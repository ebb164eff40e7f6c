#pragma once

#include <cstdint>

#include "nn/model.h"

namespace dptrain::parallel {

/// Watches what the replicas of a strategy compute in training steps, layer by layer. Called on the ranks' threads, of
/// several ranks at once. With one, no step is recorded (see StepRecorder).
class StepObserver {
 public:
  virtual ~StepObserver() = default;
  /// A pass over the samples of these numbers, i64 [N] on the device, has made `output` of a stage of its model.
  virtual void on_stage(const nn::Model& model, int stage, const Tensor& output, const Tensor& sample_ids) = 0;
  /// Elements of the model's flat gradients from `begin` on, summed over all devices, as an optimizer is about to read
  /// them: on every rank that updates them, before they are clipped.
  virtual void on_gradients(const nn::Model& model, const Tensor& gradients, int64_t begin) = 0;
};

}  // namespace dptrain::parallel
