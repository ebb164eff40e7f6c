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

/// How the operations of a group's ranks reach those of other processes: what each comes to, the tags of its messages,
/// their order, and what the processes compare before they look at any. Used with the group's mutex held.
class GroupExchange {
 public:
  using Operation = std::shared_ptr<ThreadGroup::Operation>;

  GroupExchange(const RanksOfProcesses& world, double timeout_s);

  const RanksOfProcesses& world() const { return world_; }
  ProcessExchange& processes() const { return *world_.exchange; }
  /// Of this process.
  const RankRun& ranks() const { return ranks_; }

  /// Whether other processes take part in it.
  bool takes(const OperationKey& key) const { return !ranks_.contains(key.from) || !ranks_.contains(key.to); }
  /// What such an operation comes to, whose own ranks have all arrived.
  ExchangePlan plan_of(const ThreadGroup::Operation& operation) const;
  /// Starts the messages of the stage that it is at; `done` is called on the exchange's thread once they are there.
  /// Those between two ranks begin in the order of their numbers, whoever was done first with copying.
  void start(const Operation& operation, std::function<void()> done);
  /// It is done.
  void end(const OperationKey& key) {
    if (!key.is_message()) under_way_.erase(key.number);
  }

 private:
  struct Started {
    Operation operation;
    std::function<void()> done;
  };
  /// Of the messages from a rank to another, one of them in another process.
  struct PairOfRanks {
    int64_t latest = 0;               ///< number of the latest that began
    std::map<int64_t, Started> held;  ///< those that wait for earlier ones
  };

  Transfer transfer_of(const Started& started);
  /// Whom a collective is compared with, and its tag.
  void compare_collective(Transfer& transfer, const OperationKey& key);
  void compare_message(Transfer& transfer, const CommCall& call) const;
  int pair_tag(const OperationKey& key) const;
  JobFailure disagreement(const ThreadGroup::Operation& operation, int process, const std::string& theirs) const;
  JobFailure overdue(const ThreadGroup::Operation& operation, const std::vector<int>& processes) const;
  RankRun ranks_of_process(int process) const { return world_.shape.ranks_of(world_.place_of(process)); }

  const RanksOfProcesses world_;
  const int place_;  ///< of this process among the world's
  const RankRun ranks_;
  const int first_tag_;
  const double timeout_s_;
  const std::shared_ptr<StagingPool> staging_ = StagingPool::make();
  std::map<std::pair<int, int>, PairOfRanks> pairs_;  ///< by sender and receiver
  std::set<int64_t> under_way_;                       ///< numbers of collectives
};

}  // namespace dptrain
