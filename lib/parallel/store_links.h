#pragma once

#include <memory>
#include <vector>

#include "comm/communicator.h"
#include "comm/thread_communicator.h"

namespace dptrain::parallel {

/// Which processes of a job train, and which hold a server of the store; a process may do both.
struct StoreRoles {
  std::vector<int> workers;
  std::vector<int> servers;
};

/// What a server is reached by.
struct ServerLinks {
  int server = 0;                                         ///< its number
  std::vector<std::unique_ptr<Communicator>> to_workers;  ///< by worker, two ranks: its own is 1
  std::unique_ptr<Communicator> among_servers;            ///< its rank is its number; null where it is the only one
};

/// The ends that this process has of the links between workers and servers of a key-value store: a communicator of two
/// for each pair.
struct StoreLinks {
  std::vector<std::unique_ptr<Communicator>> to_servers;  ///< of its worker, by server: rank 0; none where it has none
  std::vector<ServerLinks> servers;                       ///< of its servers
};

/// Of one process that has the only worker, and all servers.
StoreLinks make_store_links(int servers, double timeout_s);
/// Of this process of a job. All processes that have a role call it, in the same order as what else makes groups.
StoreLinks make_store_links(ProcessExchange& exchange, const StoreRoles& roles, double timeout_s);

}  // namespace dptrain::parallel
