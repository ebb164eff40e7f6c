#pragma once

#include <memory>
#include <vector>

#include "comm/communicator.h"
#include "comm/simulated_links.h"

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

}  // namespace dptrain
