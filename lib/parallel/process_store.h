#pragma once

#include <memory>
#include <vector>

#include "parallel/dist_key_value_store.h"
#include "parallel/store_options.h"
#include "parallel/store_scheduler.h"
#include "parallel/store_server.h"
#include "parallel/strategy_context.h"

namespace dptrain::parallel {

/// A training process's part of a key-value store on servers: its worker end, its servers, and in the first process the
/// scheduler. The destructor waits for all other workers to end.
class ProcessStore {
 public:
  /// Forms groups of the team's ranks, so it must not be called while `run` runs. `keys`: the model's keys.
  ProcessStore(RankTeam& team, const StrategyContext& context, const StoreOptions& options,
               const std::vector<StoreKey>& keys);

  /// A rank's access to the store.
  DistStoreContext context(int rank) const;
  StoreClient& client() { return *client_; }
  SchedulerLink& scheduler() { return *to_scheduler_; }
  /// How devices add up pushed gradients (see CommWays); "" if they are added up in host memory.
  std::string way_between_devices() const;

 private:
  void hold_servers(StoreLinks& links, const StoreServerOptions& options, const StoreOptions& store);
  /// If devices add up pushed gradients: forms groups of the ranks of each subtree.
  void group_subtrees(RankTeam& team, const std::vector<RankRun>& subtrees);

  std::vector<std::unique_ptr<StoreServer>> servers_;
  std::unique_ptr<StoreScheduler> scheduler_;
  std::vector<std::unique_ptr<Communicator>> to_servers_;
  std::unique_ptr<SchedulerLink> to_scheduler_;
  std::shared_ptr<StoreClient> client_;  ///< ends before the links that it uses
  std::vector<Communicator*> process_;   ///< by rank: the process's ranks
  std::vector<CallLog*> logged_;         ///< by rank: the log of a planned rank
  /// By rank: the ranks of its subtree; null if gradients are added up in host memory.
  std::vector<Communicator*> subtrees_;
};

/// A run's options for its servers, except the slices.
StoreServerOptions server_options(const ReplicaSpec& replica, const WorldShape& world, bool is_asynchronous,
                                  double timeout_s);

}  // namespace dptrain::parallel
