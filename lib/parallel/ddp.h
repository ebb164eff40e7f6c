#pragma once

#include "parallel/gradient_buckets.h"
#include "parallel/replicated_strategy.h"

namespace dptrain::parallel {

/// Distributed data parallel: a rank a device, each with its part of the batch, its own replica and optimizer.
/// Gradients are summed over the ranks bucket by bucket while backward still runs; every rank then makes the same
/// update.
class Ddp final : public ReplicatedStrategy {
 public:
  Ddp(const StrategyContext& context, const BucketOptions& buckets);

  std::vector<Device*> batch_devices() override;
  void train_step(const Batch& batch, const StepNumbers& numbers) override;

 private:
  void share_weights(int rank) override;
  /// Forward and backward, with buckets of gradients reduced as they are completed.
  void reduce_in_buckets(int rank, const BatchPart& part, double scale);

  std::vector<std::unique_ptr<GradientBuckets>> buckets_;
};

}  // namespace dptrain::parallel
