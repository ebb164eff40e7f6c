#pragma once

#include "base/check.h"
#include "parallel/replicated_strategy.h"

namespace dptrain::parallel {

/// One device computes the whole batch.
class Single final : public ReplicatedStrategy {
 public:
  explicit Single(const StrategyContext& context)
      : ReplicatedStrategy(
            context,
            [](int) {
              return ReplicaAssignment{.duties = {.updates = true, .averages = true, .gradients_held_by = kGradients}};
            }),
        steps_(team(), context.replica.steps_in_flight) {
    DPTRAIN_CHECK(ranks() == 1, "single on {} devices", ranks());
  }

  void train_step(std::shared_ptr<const Batch> batch, const StepNumbers& numbers) override;

 private:
  void share_weights(int) override {}

  /// Buckets of gradients that fit in the memory of a few activations, and are long enough for fast updates.
  static constexpr BucketOptions kGradients{.bucket_mb = 4, .first_bucket_mb = 4};

  StepsUnderWay steps_;
};

}  // namespace dptrain::parallel
