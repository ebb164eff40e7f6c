#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "comm/communicator.h"
#include "comm/thread_communicator.h"

namespace dptrain::parallel {

/// What the processes of a job are to a key-value store on servers; one may be several of these.
struct StoreRoles {
  std::vector<int> workers;  ///< processes that train
  std::vector<int> servers;  ///< processes that hold weights
  int scheduler = 0;         ///< the process that knows how far each worker is

  bool is_worker(int process) const;
};

/// `servers`: how many processes are servers alone, the last ones, behind the scheduler; 0: each process is a worker
/// and a server, the first one the scheduler too.
StoreRoles store_roles(int processes, int servers);

/// What a server is reached by.
struct ServerLinks {
  int server = 0;                                         ///< its number
  std::vector<std::unique_ptr<Communicator>> to_workers;  ///< by worker, two ranks: its own is 1
  std::unique_ptr<Communicator> among_servers;            ///< its rank is its number; null where it is the only one
};

/// The ends that this process has of the links of a key-value store: a communicator of two for each pair.
struct StoreLinks {
  std::vector<std::unique_ptr<Communicator>> to_servers;  ///< of its worker, by server: rank 0; none where it has none
  std::unique_ptr<Communicator> to_scheduler;             ///< of its worker: rank 0
  std::vector<ServerLinks> servers;                       ///< of its servers
  std::vector<std::unique_ptr<Communicator>> to_workers;  ///< of its scheduler, by worker: rank 1
};

/// Of one process that has the only worker, all servers and the scheduler.
StoreLinks make_store_links(int servers, double timeout_s);
/// Of the first worker of a planned training, whose servers and scheduler aren't there: what is sent is counted, and
/// over at once; nothing comes back.
StoreLinks make_planned_store_links(int servers);
/// Of this process of a job. All its processes call it, in the same order as what else makes groups.
StoreLinks make_store_links(ProcessExchange& exchange, const StoreRoles& roles, double timeout_s);

}  // namespace dptrain::parallel
