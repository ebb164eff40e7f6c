#pragma once

#include "tensor/tensor.h"

namespace dptrain::autograd {

/// Adds up what operators know of their devices' parts of a batch, where they compute by all of it. Every device makes
/// the same calls in the same order, in the forward pass and in the backward pass, one without samples too.
class SumOverDevices {
 public:
  virtual ~SumOverDevices() = default;

  /// f32 values become their sums over the devices, in one fixed order, equal on all of them. They are there for
  /// whatever the device is given next.
  virtual void sum(const Tensor& values) = 0;
  /// Whether sums may be recorded with a device's work, where all devices do that together.
  virtual bool can_be_recorded() const { return false; }
};

}  // namespace dptrain::autograd
