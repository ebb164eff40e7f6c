#pragma once

#include "parallel/dist_key_value_store.h"
#include "parallel/replicated_strategy.h"
#include "parallel/steps_under_way.h"
#include "parallel/store_scheduler.h"
#include "parallel/store_server.h"

namespace dptrain::parallel {

struct StoreOptions {
  enum class Type {
    device,            ///< on the ranks' devices
    local,             ///< in host memory of the process
    dist_sync,         ///< on servers, which the processes hold; each adds up its ranks' gradients in host memory
    dist_device_sync,  ///< the same, added up on the devices
    dist_async,        ///< as dist_sync, but each process's gradients are an update of their own
  };
  Type type = Type::device;
  Placement placement = Placement::balanced;  ///< of keys over devices, or servers
  // Of a store on servers:
  int servers = 0;  ///< 0: one in each process
  /// Of dist_async: steps that a process may be ahead of the slowest one; nothing: any number.
  std::optional<int64_t> max_staleness = {};

  bool is_dist() const { return type != Type::device && type != Type::local; }
  bool is_asynchronous() const { return type == Type::dist_async; }
};

/// "dist_sync"
const char* store_type_name(StoreOptions::Type type);

/// Data parallel through a key-value store, as MXNet's Module and Gluon's Trainer do it: a key for each parameter. Each
/// rank pushes a key's gradient as backward completes it, the store sums and updates, every rank pulls the new weights.
/// No replica has an optimizer.
class KvStore final : public ReplicatedStrategy {
 public:
  KvStore(const StrategyContext& context, const StoreOptions& options);

  std::vector<Device*> batch_devices() override { return part_devices(); }
  void train_step(std::shared_ptr<const Batch> batch, const StepNumbers& numbers) override;
  RankCosts take_costs(int rank) override;
  std::optional<StoreUse> store() const override;
  bool is_in_step() const override { return !options_.is_asynchronous(); }
  bool may_begin(int64_t step, int signal) override;
  std::optional<Staleness> take_staleness() override;

 private:
  void meet() override;
  void settle(int rank) override;
  void share_weights(int rank) override;
  std::vector<nn::NamedValues> dealt_out_state(int rank) override;
  void restore_dealt_out(int rank, const TrainingState& state) override;
  KeyValueStore& end(int rank) { return *ends_[static_cast<size_t>(rank)]; }
  /// Forward and backward; keys are pushed from the last to the first, each as soon as it and those before it are
  /// complete.
  void push_while_backward_runs(int rank, const StepParts& parts);
  void update_and_pull(int rank);
  /// The servers that this process holds, and its end of all of them.
  void connect(const StrategyContext& context);
  DistStoreContext dist_context(int rank);

  StoreOptions options_;
  // Of a store on servers:
  std::vector<std::unique_ptr<StoreServer>> servers_;  ///< of this process
  std::unique_ptr<StoreScheduler> scheduler_;          ///< of the first process
  std::vector<std::unique_ptr<Communicator>> to_servers_;
  std::unique_ptr<SchedulerLink> to_scheduler_;
  std::shared_ptr<StoreClient> client_;  ///< ends before they do
  std::vector<Communicator*> process_;   ///< by rank: the process's ranks
  std::vector<Communicator*> subtrees_;  ///< by rank: those of its subtree, where devices add up

  std::vector<std::unique_ptr<KeyValueStore>> ends_;  ///< by rank
  std::vector<CommCounts> reported_;                  ///< of the ends
  /// Some rank records its work: keys are pushed after what it records.
  bool pushes_after_backward_ = false;
  StepsUnderWay steps_;
};

}  // namespace dptrain::parallel
