#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "comm/communicator.h"
#include "comm/process_exchange.h"
#include "comm/simulated_links.h"
#include "comm/world_shape.h"

namespace dptrain {

struct ThreadGroupOptions {
  double timeout_s = 300;  ///< deadline of every wait
  /// Calls end when all ranks have made them and agree, and touch no buffer. For ranks whose devices then do the work.
  bool meet_only = false;
  /// Links that set the least time of a call. Null: a call takes as long as this machine needs.
  std::shared_ptr<SimulatedLinks> links = {};
  /// The ranks of this group in `links`; by default the same numbers.
  std::vector<int> link_ranks = {};
};

/// Makes communicators for `size` ranks that are threads of this process. Element r is rank r's, to be used by one
/// thread at a time. Ranks read and write each other's buffers without copies. The communicators share their state and
/// may be destroyed in any order.
std::vector<std::unique_ptr<Communicator>> make_thread_communicators(int size, const ThreadGroupOptions& options = {});

/// A world of ranks that several processes have.
struct RanksOfProcesses {
  ProcessExchange* exchange = nullptr;  ///< outlives the communicators
  std::vector<int> processes;           ///< the processes with ranks: their numbers in the job, in order
  WorldShape shape;                     ///< the ranks of these processes
  /// The number of the group, from ProcessExchange::next_group. Groups with no process in common may share one. If not
  /// set, the group takes the next number.
  std::optional<int> group = {};

  /// The place of a process in `processes`. A process that isn't in it is a bug.
  int place_of(int process) const;
  int place() const { return place_of(exchange->process()); }
  RankRun own_ranks() const { return shape.ranks_of(place()); }
};

/// Makes communicators for this process's ranks of a world. Element i is the i-th of these ranks; rank numbers are
/// those of the world. Every process with ranks of the group makes it, in the same order as other groups. Gradients are
/// summed in the same order as if all ranks were threads of one process (see exchange_plan.h). `meet_only`: see
/// ThreadGroupOptions. With more than a few processes each then waits for its neighbors only; that still shows ranks
/// that differ.
std::vector<std::unique_ptr<Communicator>> make_process_communicators(const RanksOfProcesses& world, double timeout_s,
                                                                      bool meet_only = false);

}  // namespace dptrain
