#pragma once

#include "parallel/key_value_store.h"
#include "parallel/process_store.h"
#include "parallel/recorded_exchanges.h"
#include "parallel/replicated_strategy.h"
#include "parallel/store_options.h"

namespace dptrain::parallel {

/// Data parallel through a key-value store, as MXNet's Module and Gluon's Trainer do it, with a key for each parameter.
/// Each rank pushes a key's gradient once backward has completed it. The store sums and updates, and every rank pulls
/// the new weights. No replica has an optimizer.
class KvStore final : public ReplicatedStrategy {
 public:
  KvStore(const StrategyContext& context, const StoreOptions& options);

  void train_step(std::shared_ptr<const Batch> batch, const StepNumbers& numbers) override;
  RankCosts take_costs(int rank) override;
  std::optional<StoreUse> store() const override;
  CommWays sum_ways() override;
  bool is_in_step() const override { return !options_.is_asynchronous(); }
  bool may_begin(int64_t step, int signal) override;
  std::optional<Staleness> take_staleness() override;

 private:
  void meet() override;
  void settle(int rank) override;
  std::vector<nn::NamedValues> dealt_out_state(int rank) override;
  void restore_dealt_out(int rank, const TrainingState& state) override;
  KeyValueStore& end(int rank) { return *ends_[static_cast<size_t>(rank)]; }
  void give_step(const RankStep& step);
  /// Whether a rank's steps are recorded together with all of their exchanges.
  bool records_exchanges(int rank);
  /// Runs forward and backward. Keys are pushed from the last to the first, each once its gradient and those of all
  /// later keys are complete.
  void push_while_backward_runs(int rank, const StepParts& parts);
  /// Pushes all keys; all gradients must be complete.
  void push_all(int rank);
  void update_and_pull(int rank);

  StoreOptions options_;
  std::unique_ptr<ProcessStore> on_servers_;          ///< null unless the store is on servers; outlives the ends
  std::vector<std::unique_ptr<KeyValueStore>> ends_;  ///< by rank
  std::vector<CommCounts> reported_;                  ///< by rank: counts of its end that have been reported
  /// Some rank's device can record. Unless exchanges are recorded too, keys are pushed after the recorded section.
  bool pushes_after_backward_ = false;
  RecordedExchanges recorded_;
  StepsUnderWay steps_;
};

}  // namespace dptrain::parallel
