#pragma once

#include <memory>
#include <vector>

#include "comm/communicator.h"

namespace dptrain {

struct ThreadGroupOptions {
  double timeout_s = 300;  ///< the deadline of every wait
  /// Calls end when all ranks have made them and agree, and touch no buffer: how ranks meet whose devices then do the
  /// work.
  bool meet_only = false;
};

/// Communicators for `size` ranks that are threads of this process; element r is rank r's, to be used by one thread at
/// a time. Zero-copy: ranks read and write each other's buffers. They share their state and may be destroyed in any
/// order.
std::vector<std::unique_ptr<Communicator>> make_thread_communicators(int size, const ThreadGroupOptions& options = {});

}  // namespace dptrain
