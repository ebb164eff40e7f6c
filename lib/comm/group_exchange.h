#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "comm/exchange_plan.h"
#include "comm/process_exchange.h"
#include "comm/thread_communicator.h"
#include "comm/thread_group.h"

namespace dptrain {

/// How the operations of a group's ranks reach other processes. It makes the plan of each operation, the tags and the
/// order of its messages, and the headers that processes compare first. Must be used with the group's mutex held.
class GroupExchange {
 public:
  using Operation = std::shared_ptr<ThreadGroup::Operation>;

  GroupExchange(const RanksOfProcesses& world, double timeout_s);

  const RanksOfProcesses& world() const { return world_; }
  ProcessExchange& processes() const { return *world_.exchange; }
  /// The ranks of this process.
  const RankRun& ranks() const { return ranks_; }

  /// Whether other processes take part in the operation.
  bool takes(const OperationKey& key) const { return !ranks_.contains(key.from) || !ranks_.contains(key.to); }
  /// Plans an operation that other processes take part in. All of its ranks in this process must have arrived.
  ExchangePlan plan_of(const ThreadGroup::Operation& operation) const;
  /// Starts the messages of the operation's current stage. The exchange's thread calls `done` when all have arrived.
  /// Messages between two ranks begin in the order of their numbers, even if a later one is copied first.
  void start(const Operation& operation, std::function<void()> done);
  /// Notes that an operation is done.
  void end(const OperationKey& key) {
    if (!key.is_message()) under_way_.erase(key.number);
  }

 private:
  struct Started {
    Operation operation;
    std::function<void()> done;
  };
  /// Messages from one rank to another, where one of the two is in another process.
  struct PairOfRanks {
    int64_t latest = 0;               ///< number of the latest that began
    std::map<int64_t, Started> held;  ///< messages that wait for earlier ones
  };

  Transfer transfer_of(const Started& started);
  /// Sets the header's tag and the processes that a collective is compared with.
  void compare_collective(Transfer& transfer, const OperationKey& key);
  void compare_message(Transfer& transfer, const CommCall& call) const;
  int pair_tag(const OperationKey& key) const;
  JobFailure disagreement(const ThreadGroup::Operation& operation, int process, const std::string& theirs) const;
  JobFailure overdue(const ThreadGroup::Operation& operation, const std::vector<int>& processes) const;
  RankRun ranks_of_process(int process) const { return world_.shape.ranks_of(world_.place_of(process)); }

  const RanksOfProcesses world_;
  const int place_;  ///< of this process in the world
  const RankRun ranks_;
  const int first_tag_;
  const double timeout_s_;
  const std::shared_ptr<StagingPool> staging_ = StagingPool::make();
  std::map<std::pair<int, int>, PairOfRanks> pairs_;  ///< by sender and receiver
  std::set<int64_t> under_way_;                       ///< numbers of collectives under way
};

}  // namespace dptrain
