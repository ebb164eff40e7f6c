#pragma once

#include <map>

#include "parallel/deferred_update.h"
#include "parallel/gradient_buckets.h"
#include "parallel/gradient_compression.h"
#include "parallel/owned_updates.h"
#include "parallel/recorded_exchanges.h"
#include "parallel/replicated_strategy.h"

namespace dptrain::parallel {

/// Distributed data parallel: a rank a device, each with its part of the batch, its own replica and optimizer.
/// Gradients are summed over the ranks bucket by bucket while backward still runs; every rank then makes the same
/// update. Or, with `shard_optimizer`, gradients are summed where their range of the weights is updated, on one rank
/// each, which alone has optimizer state for it (ZeRO's first stage: Rajbhandari et al., 2020).
class Ddp final : public ReplicatedStrategy {
 public:
  struct Options {
    BucketOptions buckets = {};
    /// Parameters that a step's losses don't depend on have a gradient of zero; otherwise they end the training, by
    /// name.
    bool find_unused = false;
    bool shard_optimizer = false;
    /// Of gradients on their way; on one device, where they go nowhere, there is none. Not with shard_optimizer.
    CompressionOptions compress = {};
  };
  Ddp(const StrategyContext& context, const Options& options);

  bool defers_updates() const override { return !deferred_.empty(); }
  void wait_for_steps() override {
    team().run("finishing the steps under way", [](int) {});
  }
  void train_step(std::shared_ptr<const Batch> batch, const StepNumbers& numbers) override;

 private:
  bool has_comparable_weights(int rank) override;
  void finish_updates(int rank) override;
  std::vector<nn::NamedValues> dealt_out_state(int rank) override;
  void restore_dealt_out(int rank, const TrainingState& state) override;
  std::vector<nn::NamedValues> compression_state(int rank) override;
  /// Of ranks whose sums are part of what is recorded.
  void agree_on_recording();
  void defer_updates();
  void start_compression(const StrategyContext& context, const CompressionOptions& compress,
                         const BucketOptions& buckets);
  void give_step(const RankStep& step);
  /// A step whose update the next one's forward pass makes.
  void step_with_deferred_update(int rank, const StepParts& parts);
  /// What follows on complete sums, to the end of a step on the device.
  void update(int rank);
  /// Forward and backward of a rank.
  void compute(int rank, const StepParts& parts, const GradientReadyHook& ready);
  /// The same, with sums of buckets of gradients started as they are completed.
  void start_in_buckets(int rank, const StepParts& parts);
  /// The same, and ended.
  void reduce_in_buckets(int rank, const StepParts& parts);
  /// Buckets of gradients that are all there.
  void reduce_all_buckets(int rank);
  /// Before and after the first sums between recorded sections; see wait_until_all_idle.
  void wait_until_idle(int rank);
  /// Whether sums may be part of what a rank records.
  bool records_sums(int rank);
  /// As reduce_in_buckets, for sums that can't be recorded: where ranks record, all buckets are reduced after what is
  /// recorded.
  void reduce_unrecorded(int rank, const StepParts& parts);

  bool find_unused_;
  std::vector<std::unique_ptr<GradientCompression>> compressions_;  ///< by rank; empty where there is none
  std::vector<std::unique_ptr<GradientBuckets>> buckets_;
  std::vector<std::unique_ptr<OwnedUpdates>> updates_;     ///< by rank; empty where every rank updates everything
  std::vector<std::unique_ptr<DeferredUpdate>> deferred_;  ///< by rank; empty where steps end with their update
  /// Some rank records its work and its communicator can't be recorded: all of them sum once, between two parts.
  bool sums_between_parts_ = false;
  std::vector<char> has_summed_;  ///< by rank, between recorded parts
  RecordedExchanges recorded_;
  StepsUnderWay steps_;
};

}  // namespace dptrain::parallel
