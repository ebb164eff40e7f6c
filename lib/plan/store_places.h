#pragma once

#include <cstdint>
#include <vector>

#include "comm/world_shape.h"
#include "parallel/served_store.h"

namespace dptrain::plan {

/// The hosts of the workers and servers of a key-value store. Host h has worker h. Servers that are processes of their
/// own may also be on further hosts.
struct StorePlaces {
  WorldShape workers = WorldShape({1});  ///< one process each
  std::vector<int> hosts_of_servers;
  /// Each worker's process contains a server; if false, servers are processes of their own.
  bool servers_are_workers = true;

  int hosts() const;
  bool is_worker(int host) const { return host < workers.processes(); }
  /// The number of sums that a worker pushes for each key, one for each whole subtree that it has.
  int64_t sums_of(int worker) const { return static_cast<int64_t>(workers.whole_subtrees(worker).size()); }
};

/// Places servers as launch.sh does. `servers` are processes of their own that take turns on the workers' hosts, the
/// first of which also has the scheduler; 0: one server in each worker. With `server_hosts` they take turns on that
/// many further hosts.
StorePlaces place_servers(const WorldShape& workers, int servers, int server_hosts);

/// The bytes that a step moves.
struct StoreTraffic {
  int64_t pushed = 0;    ///< by one worker to all servers: the most of any worker
  int64_t pulled = 0;    ///< by one worker
  int64_t entering = 0;  ///< over the link of the host that receives most
  int64_t leaving = 0;   ///< over the link of the host that sends most
};

StoreTraffic traffic_of(const parallel::ServedStore& store, const StorePlaces& places);

}  // namespace dptrain::plan
