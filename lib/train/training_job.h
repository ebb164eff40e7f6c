#pragma once

#include <string>
#include <vector>

#include "comm/process_group.h"
#include "comm/thread_communicator.h"
#include "parallel/rank_costs.h"
#include "parallel/store_links.h"
#include "train/metrics.h"

namespace dptrain::train {

/// The processes that train one model together, as the trainer in one of them needs them.
struct TrainingJob {
  ProcessGroup& group;
  RanksOfProcesses ranks;
  std::vector<RankPlace> places;  ///< by rank of the world
  /// For a key-value store on servers.
  std::shared_ptr<parallel::StoreLinks> store_links = {};

  bool is_main() const { return group.is_main(); }
};

/// The costs of all processes' ranks, by rank of the world, on the main process; the other processes get `own`.
std::vector<parallel::RankCosts> gather_costs(ProcessGroup& group, const std::vector<parallel::RankCosts>& own);

}  // namespace dptrain::train
