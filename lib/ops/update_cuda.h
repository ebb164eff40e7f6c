#pragma once

#include "ops/cuda_kernels.h"
#include "ops/update_control.h"

// What the optimizers' kernels share. For .cu files only.

namespace dptrain::ops::cuda {

/// An UpdateControl as kernels read it.
class UpdateScalars {
 public:
  explicit UpdateScalars(const UpdateControl& control)
      : factor_(data_or_null<float>(control.gradient_factor)),
        rate_(data_or_null<float>(control.learning_rate)),
        step_(data_or_null<int32_t>(control.step)),
        skip_(data_or_null<int32_t>(control.skip)),
        skipped_(data_or_null<int64_t>(control.skipped)) {}

  __device__ bool skipped_now() const { return skip_ != nullptr && *skip_ != 0; }
  __device__ float factor() const { return factor_ != nullptr ? *factor_ : 1.f; }
  __device__ float rate(float given) const { return rate_ != nullptr ? *rate_ : given; }
  /// Of the steps that changed something, this one included.
  __device__ int64_t step_number(int64_t given) const {
    return (step_ != nullptr ? *step_ : given) - (skipped_ != nullptr ? *skipped_ : 0);
  }

 private:
  const float* factor_;
  const float* rate_;
  const int32_t* step_;
  const int32_t* skip_;
  const int64_t* skipped_;
};

}  // namespace dptrain::ops::cuda
