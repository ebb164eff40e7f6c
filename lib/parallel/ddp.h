#pragma once

#include <map>

#include "parallel/deferred_update.h"
#include "parallel/gradient_buckets.h"
#include "parallel/gradient_compression.h"
#include "parallel/owned_updates.h"
#include "parallel/recorded_exchanges.h"
#include "parallel/replicated_strategy.h"

namespace dptrain::parallel {

/// Distributed data parallel: one rank per device, each with its part of the batch, its own replica and its own
/// optimizer. Gradients are summed over the ranks bucket by bucket while backward still runs. Every rank then makes the
/// same update.
///
/// With `shard_optimizer` each rank owns a range of the weights. Gradients of a range are summed on its owner, which
/// alone has optimizer state for the range and updates it (ZeRO stage 1: Rajbhandari et al., 2020).
class Ddp final : public ReplicatedStrategy {
 public:
  struct Options {
    BucketOptions buckets = {};
    /// If true, parameters that a step's losses don't depend on get a gradient of zero. If false, they end the run with
    /// an error that names them.
    bool find_unused = false;
    bool shard_optimizer = false;
    /// Compression of the gradients that ranks exchange. One device exchanges none, so it compresses nothing. Not with
    /// shard_optimizer.
    CompressionOptions compress = {};
    bool measures_noise = false;  ///< measures the noise of gradients (gradient_noise.h)
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
  /// Lets ranks whose sums can be recorded agree on when to record them.
  void agree_on_recording();
  void defer_updates();
  void start_compression(const StrategyContext& context, const CompressionOptions& compress,
                         const BucketOptions& buckets);
  void give_step(const RankStep& step);
  /// Makes a step whose update runs in the next step's forward pass.
  void step_with_deferred_update(int rank, const StepParts& parts);
  /// Does the rest of a step on the device, once its sums are complete.
  void update(int rank);
  /// Runs a rank's forward and backward; `ready` is called for each parameter whose gradient is complete.
  void compute(int rank, const StepParts& parts, const GradientReadyHook& ready);
  /// Runs forward and backward, and starts the sum of each bucket once its gradients are complete.
  void start_in_buckets(int rank, const StepParts& parts);
  /// Does the same as `start_in_buckets`, then waits for all sums.
  void reduce_in_buckets(int rank, const StepParts& parts);
  /// Sums all buckets; all gradients must be complete.
  void reduce_all_buckets(int rank);
  /// Called before and after the first sums between recorded sections; see wait_until_all_idle.
  void wait_until_idle(int rank);
  /// Whether a rank's sums may be recorded with its work.
  bool records_sums(int rank);
  /// Computes and sums gradients when sums can't be recorded. If ranks record their work, all buckets are summed after
  /// the recorded section; else as in `reduce_in_buckets`.
  void reduce_unrecorded(int rank, const StepParts& parts);

  bool find_unused_;
  std::vector<std::unique_ptr<GradientCompression>> compressions_;  ///< by rank; empty without compression
  std::vector<std::unique_ptr<GradientBuckets>> buckets_;
  std::vector<std::unique_ptr<OwnedUpdates>> updates_;     ///< by rank; empty if every rank updates all weights
  std::vector<std::unique_ptr<DeferredUpdate>> deferred_;  ///< by rank; empty if steps end with their update
  /// Some rank's device can record its work. Sums that can't be recorded then run between two recorded sections.
  bool sums_between_parts_ = false;
  std::vector<char> has_summed_;  ///< by rank: whether it has summed between recorded sections before
  RecordedExchanges recorded_;
  StepsUnderWay steps_;
};

}  // namespace dptrain::parallel
