#pragma once

#include <cstdint>
#include <vector>

#include "device/device.h"
#include "tensor/tensor.h"

namespace dptrain::parallel {

/// What a GPU's own clock says of its stages of a pipeline: how long their passes took, and how long each was waited
/// with, by what the step had come to before. Used by the device's rank thread.
class StageLaps {
 public:
  enum class Of { waiting, forward, backward, backward_weights };

  /// Of so many stages.
  StageLaps(Device& device, size_t stages);
  /// A step begins here.
  void begin_step();
  /// From the beginning of the step, or the last lap, to here it was this.
  void add(size_t stage, Of of);

  struct Seconds {
    double waiting = 0;
    double forward = 0;
    double backward = 0;
    double backward_weights = 0;
  };
  /// By stage, since the last call. Blocks.
  std::vector<Seconds> take();

 private:
  static constexpr size_t kOfStage = 4;

  Tensor laps_;  ///< i64: the moment of the last lap, then those of each stage as `Of` has them, in nanoseconds
};

}  // namespace dptrain::parallel
