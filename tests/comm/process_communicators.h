#pragma once

#include <algorithm>
#include <iterator>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "comm/communicator_kind.h"
#include "comm/process_exchange.h"
#include "comm/thread_communicator.h"
#include "support/memory_wires.h"

namespace dptrain {

/// Processes with these numbers of ranks, played by threads of one process. Element r is rank r.
inline RankList communicators_of_processes(const std::vector<int>& ranks_of_processes, double timeout_s) {
  const auto processes = static_cast<int>(ranks_of_processes.size());
  const auto exchanges = std::make_shared<std::vector<std::unique_ptr<ProcessExchange>>>();
  for (const auto& wire : MemoryWires::make(processes))
    exchanges->push_back(std::make_unique<ProcessExchange>(wire, /*idle_pause_s=*/0.0005));
  std::vector<int> all(ranks_of_processes.size());
  std::iota(all.begin(), all.end(), 0);
  RankList ranks;
  for (const auto& exchange : *exchanges)
    std::ranges::move(
        make_process_communicators(
            {.exchange = exchange.get(), .processes = all, .shape = WorldShape(ranks_of_processes)}, timeout_s),
        std::back_inserter(ranks));
  ranks.ground = exchanges;
  return ranks;
}

/// Processes of `ranks_each` ranks each; the last one has the remaining ranks.
inline CommunicatorKind process_communicators(const std::string& name, int ranks_each) {
  const auto make = [ranks_each](int size, double timeout_s) {
    std::vector<int> ranks_of_processes;
    for (int begin = 0; begin < size; begin += ranks_each)
      ranks_of_processes.push_back(std::min(ranks_each, size - begin));
    return communicators_of_processes(ranks_of_processes, timeout_s);
  };
  return {.name = name, .make = make, .ranks_of_process = ranks_each};
}

}  // namespace dptrain
