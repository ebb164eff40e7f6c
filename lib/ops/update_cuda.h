#pragma once

#include "ops/cuda_kernels.h"
#include "ops/update_control.h"
#include "ops/update_groups.h"

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
  /// The number of steps that changed something, including this one.
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

/// UpdateGroups as kernels read them. A block computes the numbers of each group once, in shared memory.
class GroupTable {
 public:
  explicit GroupTable(const UpdateGroups& groups)
      : factors_(data_or_null<double>(groups.factors)),
        of_blocks_(data_or_null<uint8_t>(groups.of_blocks)),
        count_(static_cast<int>(groups.count())) {}

  /// Sets numbers[group] of every group to make(factor of the learning rate, factor of the weight decay). All threads
  /// of a block must call it. It ends with a barrier.
  template <class Numbers, class Make>
  __device__ void fill(Numbers* numbers, const Make& make) const {
    for (int group = static_cast<int>(threadIdx.x); group < count_; group += static_cast<int>(blockDim.x)) {
      const double rate = factors_ != nullptr ? factors_[2 * group] : 1,
                   decay = factors_ != nullptr ? factors_[2 * group + 1] : 1;
      numbers[group] = make(rate, decay);
    }
    __syncthreads();
  }
  /// The group of the weights from `at` on, up to the next multiple of 16.
  __device__ int of(int64_t at) const { return of_blocks_ != nullptr ? of_blocks_[at / UpdateGroups::kBlock] : 0; }

 private:
  const double* factors_;
  const uint8_t* of_blocks_;
  int count_;
};

}  // namespace dptrain::ops::cuda
