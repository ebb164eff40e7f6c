#pragma once

#include "parallel/bucket_sum.h"

namespace dptrain::parallel {

/// Exchanges a bucket's gradients in 16 bits (PyTorch's bf16_compress_hook and fp16_compress_hook). Every rank rounds
/// its own gradients, they are added in f32 in the tree order over the ranks, and the sum is rounded once. This sends
/// half the bytes of PlainSum. No rank keeps what rounding removed.
///
/// f16 has 10 bits of mantissa where bf16 has 7, but a small range. The ranks therefore first add up their largest
/// magnitudes. The total bounds every sum, and gradients are scaled by a power of two that follows from it
/// (ops/scaled_half.h).
class HalfSum final : public BucketSum {
 public:
  /// `gradients`: flat f32, the bucket's. `format`: bf16 or f16. `priority`: priority of its all-reduces.
  HalfSum(Communicator& communicator, const Tensor& gradients, DType format, int priority = 0);

  void start() override;
  void go_on() override;
  void finish() override;

 private:
  void convert_to_halves();
  void convert_to_gradients();
  void start_sum();

  Communicator& communicator_;
  int priority_;
  Tensor gradients_;
  Tensor halves_;
  Tensor bound_;                        ///< f32 [1]; f16 only
  std::unique_ptr<CommWork> bounding_;  ///< f16 only, until the sum is started
  std::unique_ptr<CommWork> summing_;
};

}  // namespace dptrain::parallel
