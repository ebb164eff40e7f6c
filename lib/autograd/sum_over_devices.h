#pragma once

#include "tensor/tensor.h"

namespace dptrain::autograd {

/// Adds up values that operators compute from their device's part of a batch when they need them for the whole batch.
/// Every device makes the same calls in the same order, in the forward pass and in the backward pass; so does a device
/// without samples.
class SumOverDevices {
 public:
  virtual ~SumOverDevices() = default;

  /// Replaces the f32 `values` by their sums over the devices. The sums are made in one fixed order and are equal on
  /// all devices. They are ready for whatever work the device is given next.
  virtual void sum(const Tensor& values) = 0;
  /// Whether sums may be recorded as part of a device's work, if all devices record together.
  virtual bool can_be_recorded() const { return false; }
};

}  // namespace dptrain::autograd
