#pragma once

#include <cstdint>
#include <vector>

#include "device/device.h"
#include "tensor/tensor.h"

namespace dptrain::parallel {

/// Times of a GPU's pipeline stages, measured by its own clock: the time of each stage's passes, and the wait before
/// each pass. Used by the device's rank thread.
class StageLaps {
 public:
  enum class Of { waiting, forward, backward, backward_weights };

  /// `stages`: number of stages of this device.
  StageLaps(Device& device, size_t stages);
  /// Marks the beginning of a step.
  void begin_step();
  /// Counts the time since the last mark or lap as `of`, for `stage`.
  void add(size_t stage, Of of);

  struct Seconds {
    double waiting = 0;
    double forward = 0;
    double backward = 0;
    double backward_weights = 0;
  };
  /// Returns the times by stage since the last call. Blocks.
  std::vector<Seconds> take();

 private:
  static constexpr size_t kOfStage = 4;

  /// i64, in nanoseconds: the moment of the last lap, then by stage the times in the order of `Of`.
  Tensor laps_;
};

}  // namespace dptrain::parallel
