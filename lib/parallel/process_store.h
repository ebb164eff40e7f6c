#pragma once

#include <memory>
#include <vector>

#include "parallel/dist_key_value_store.h"
#include "parallel/store_options.h"
#include "parallel/store_scheduler.h"
#include "parallel/store_server.h"
#include "parallel/strategy.h"

namespace dptrain::parallel {

/// What a process that trains has of a key-value store on servers: its worker's end, the servers that it holds, and in
/// the first process the scheduler. Its end waits for those of all other workers.
class ProcessStore {
 public:
  /// Forms groups of the team's ranks: not while `run` runs. `keys`: of the model.
  ProcessStore(RankTeam& team, const StrategyContext& context, const StoreOptions& options,
               const std::vector<StoreKey>& keys);

  /// How a rank of the process reaches the store.
  DistStoreContext context(int rank) const;
  StoreClient& client() { return *client_; }
  SchedulerLink& scheduler() { return *to_scheduler_; }
  /// By which way devices add up what is pushed (CommWays); "" where host memory is added up in.
  std::string way_between_devices() const;

 private:
  void hold_servers(StoreLinks& links, const StoreServerOptions& options, const StoreOptions& store);
  /// Where devices add up what is pushed: groups of the ranks of each subtree.
  void group_subtrees(RankTeam& team, const std::vector<RankRun>& subtrees);

  std::vector<std::unique_ptr<StoreServer>> servers_;
  std::unique_ptr<StoreScheduler> scheduler_;
  std::vector<std::unique_ptr<Communicator>> to_servers_;
  std::unique_ptr<SchedulerLink> to_scheduler_;
  std::shared_ptr<StoreClient> client_;  ///< ends before what it is linked with
  std::vector<Communicator*> process_;   ///< by rank: the process's ranks
  std::vector<CallLog*> logged_;         ///< by rank: where a planned one writes
  std::vector<Communicator*> subtrees_;  ///< by rank: those of its subtree; null where host memory is added up in
};

/// What the servers of a training go by, but for the slices.
StoreServerOptions server_options(const ReplicaSpec& replica, const WorldShape& world, bool is_asynchronous,
                                  double timeout_s);

}  // namespace dptrain::parallel
