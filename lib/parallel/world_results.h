#pragma once

#include <string>
#include <vector>

#include "comm/communicator.h"
#include "parallel/shared_statistics.h"
#include "parallel/step_exchange.h"

namespace dptrain::parallel {

// What ranks of several processes show each other between steps. All ranks of the communicator call these alike, over
// host memory. They block.

/// Each rank's results, by rank: on rank 0; nothing elsewhere.
std::vector<std::vector<StepResults>> gather_results(Communicator& communicator, const std::vector<StepResults>& own);

/// Each rank's running statistics, by rank, on every rank. They have the same shapes.
std::vector<RunningValues> gather_running_values(Communicator& communicator, const RunningValues& own);

/// Each rank's value, by rank, on every rank.
std::vector<double> gather_values(Communicator& communicator, double own);

/// Whether some rank says so.
bool any_rank(Communicator& communicator, bool own);

}  // namespace dptrain::parallel
