#pragma once

#include <cstdint>
#include <vector>

#include "comm/world_shape.h"
#include "parallel/served_store.h"

namespace dptrain::plan {

/// Where the workers and the servers of a key-value store are. Host h has worker h; servers that are processes of their
/// own may be on hosts behind those.
struct StorePlaces {
  WorldShape workers = WorldShape({1});  ///< a process each
  std::vector<int> hosts_of_servers;
  bool servers_are_workers = true;  ///< each worker's process has a server, rather than processes of their own

  int hosts() const;
  bool is_worker(int host) const { return host < workers.processes(); }
  /// Sums that a worker pushes of each key: those of the whole subtrees that it has.
  int64_t sums_of(int worker) const { return static_cast<int64_t>(workers.whole_subtrees(worker).size()); }
};

/// As launch.sh places them: `servers` of their own in turn on the workers' hosts, of which the first has the
/// scheduler; 0: one in each worker. With `server_hosts` they are in turn on so many hosts more.
StorePlaces place_servers(const WorldShape& workers, int servers, int server_hosts);

/// What a step moves, in bytes.
struct StoreTraffic {
  int64_t pushed = 0;    ///< by a worker, to all servers: the most that one does
  int64_t pulled = 0;    ///< by a worker
  int64_t entering = 0;  ///< what comes over the link of the host that most comes to
  int64_t leaving = 0;   ///< what goes over the link of the host that most leaves
};

StoreTraffic traffic_of(const parallel::ServedStore& store, const StorePlaces& places);

}  // namespace dptrain::plan
