#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "comm/communicator.h"
#include "comm/thread_communicator.h"

namespace dptrain::parallel {

/// The roles of a job's processes for a key-value store on servers. One process may have several roles.
struct StoreRoles {
  std::vector<int> workers;  ///< processes that train
  std::vector<int> servers;  ///< processes that hold weights
  int scheduler = 0;         ///< the process that knows how far each worker is

  bool is_worker(int process) const;
};

/// Assigns the roles. `servers`: number of processes that are only servers. These are the last processes; the scheduler
/// comes before them. 0: each process is a worker and a server, and the first one is also the scheduler.
StoreRoles store_roles(int processes, int servers);

/// A server's communicators.
struct ServerLinks {
  int server = 0;                                         ///< its number
  std::vector<std::unique_ptr<Communicator>> to_workers;  ///< by worker, two ranks each; the server is rank 1
  std::unique_ptr<Communicator> among_servers;  ///< the server's rank is its number; null if there is only one server
};

/// This process's ends of the links of a key-value store. Each link is a communicator of two ranks.
struct StoreLinks {
  /// Of its worker, by server; the worker is rank 0; empty without a worker.
  std::vector<std::unique_ptr<Communicator>> to_servers;
  std::unique_ptr<Communicator> to_scheduler;             ///< of its worker, which is rank 0
  std::vector<ServerLinks> servers;                       ///< of its servers
  std::vector<std::unique_ptr<Communicator>> to_workers;  ///< of its scheduler, by worker; the scheduler is rank 1
};

/// For one process that has the only worker, all servers and the scheduler.
StoreLinks make_store_links(int servers, double timeout_s);
/// For the first worker of a planned run, whose servers and scheduler don't exist. What it sends is counted and
/// finishes at once; nothing comes back.
StoreLinks make_planned_store_links(int servers);
/// For this process of a job. All processes of the job call it, in the same order relative to other calls that form
/// groups.
StoreLinks make_store_links(ProcessExchange& exchange, const StoreRoles& roles, double timeout_s);

}  // namespace dptrain::parallel
