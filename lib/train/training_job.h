#pragma once

#include <string>
#include <vector>

#include "comm/process_group.h"
#include "comm/thread_communicator.h"
#include "parallel/strategy.h"
#include "train/metrics.h"

namespace dptrain::train {

/// Several processes that train one model together, as the trainer of one of them sees them.
struct TrainingJob {
  ProcessGroup& group;
  RanksOfProcesses ranks;
  std::vector<RankPlace> places;  ///< by rank of the world
  /// Of a key-value store on servers.
  std::shared_ptr<parallel::StoreLinks> store_links = {};

  bool is_main() const { return group.is_main(); }
};

/// What the ranks of all processes have cost, by rank of the world, on the main process; elsewhere `own`.
std::vector<parallel::RankCosts> gather_costs(ProcessGroup& group, const std::vector<parallel::RankCosts>& own);

}  // namespace dptrain::train
