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
  double timeout_s = 300;  ///< the deadline of every wait
  /// Calls end when all ranks have made them and agree, and touch no buffer: how ranks meet whose devices then do the
  /// work.
  bool meet_only = false;
  /// What calls take at least; none: as long as this machine needs.
  std::shared_ptr<SimulatedLinks> links = {};
  /// The ranks of this group among those of the links; by default they are the same.
  std::vector<int> link_ranks = {};
};

/// Communicators for `size` ranks that are threads of this process; element r is rank r's, to be used by one thread at
/// a time. Zero-copy: ranks read and write each other's buffers. They share their state and may be destroyed in any
/// order.
std::vector<std::unique_ptr<Communicator>> make_thread_communicators(int size, const ThreadGroupOptions& options = {});

/// Ranks that several processes have.
struct RanksOfProcesses {
  ProcessExchange* exchange = nullptr;  ///< outlives the communicators
  std::vector<int> processes;           ///< that have some: their numbers in the job, in order
  WorldShape shape;                     ///< over these
  /// The number of the group, from ProcessExchange::next_group, which groups may share that have no two processes in
  /// common; nothing: it takes the next one.
  std::optional<int> group = {};

  /// The place of a process among them; one that isn't is our mistake.
  int place_of(int process) const;
  int place() const { return place_of(exchange->process()); }
  RankRun own_ranks() const { return shape.ranks_of(place()); }
};

/// The same for ranks of which this process has some: element i is the i-th of these, whose ranks are those of the
/// world. Every process that has ranks of the group makes it, in the same order as others. Gradients are summed in the
/// same order as if all were threads of one process (see exchange_plan.h). `meet_only`: as in ThreadGroupOptions; of
/// more than a few processes each then waits for its neighbors alone, which shows ranks that differ all the same.
std::vector<std::unique_ptr<Communicator>> make_process_communicators(const RanksOfProcesses& world, double timeout_s,
                                                                      bool meet_only = false);

}  // namespace dptrain
