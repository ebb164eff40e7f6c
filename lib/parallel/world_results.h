#pragma once

#include <string>
#include <vector>

#include "comm/communicator.h"
#include "parallel/shared_statistics.h"
#include "parallel/step_exchange.h"

namespace dptrain::parallel {

// Exchanges of values between ranks of several processes, between steps. All ranks of the communicator make the same
// calls. They use host memory and block.

/// Returns each rank's numbers, by rank, on rank 0; nothing elsewhere. Ranks may have different numbers of them.
std::vector<std::vector<double>> gather_numbers(Communicator& communicator, std::vector<double> own);

/// Returns each rank's results, by rank, on rank 0; nothing elsewhere.
std::vector<std::vector<StepResults>> gather_results(Communicator& communicator, const std::vector<StepResults>& own);

/// Returns each rank's running statistics, by rank, on rank 0; nothing elsewhere.
std::vector<RunningValues> gather_running_values(Communicator& communicator, const RunningValues& own);

/// Returns each rank's text, by rank, on every rank.
std::vector<std::string> exchange_texts(Communicator& communicator, std::string own);

/// Returns each rank's value, by rank, on every rank.
std::vector<double> gather_values(Communicator& communicator, double own);

/// Whether any rank passes true.
bool any_rank(Communicator& communicator, bool own);

}  // namespace dptrain::parallel
