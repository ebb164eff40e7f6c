#pragma once

#include <string>
#include <vector>

#include "comm/communicator.h"
#include "parallel/shared_statistics.h"
#include "parallel/step_exchange.h"

namespace dptrain::parallel {

// What ranks of several processes show each other between steps. All ranks of the communicator call these alike, over
// host memory. They block.

/// Each rank's numbers, which may be more or fewer than another's, by rank: on rank 0; nothing elsewhere.
std::vector<std::vector<double>> gather_numbers(Communicator& communicator, std::vector<double> own);

/// The same of results.
std::vector<std::vector<StepResults>> gather_results(Communicator& communicator, const std::vector<StepResults>& own);

/// The same of running statistics.
std::vector<RunningValues> gather_running_values(Communicator& communicator, const RunningValues& own);

/// Each rank's text, by rank, on every rank.
std::vector<std::string> exchange_texts(Communicator& communicator, std::string own);

/// Each rank's value, by rank, on every rank.
std::vector<double> gather_values(Communicator& communicator, double own);

/// Whether some rank says so.
bool any_rank(Communicator& communicator, bool own);

}  // namespace dptrain::parallel
