#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <tuple>
#include <vector>

#include "comm/link_spec.h"
#include "comm/meta_communicator.h"
#include "comm/simulated_links.h"
#include "comm/staging_pool.h"
#include "comm/world_shape.h"
#include "config/config_node.h"
#include "plan/device_figures.h"

namespace dptrain::plan {

/// What joins the hosts of a cluster: a process each, with as many devices each.
struct HostLinks {
  int devices = 1;                ///< of a host
  LinkSpeed link;                 ///< of a host, to all others together
  double message_s = 0;           ///< that a process spends on each message
  double memory_bytes_per_s = 0;  ///< at which a host adds up and copies; 0: no limit
};

/// A links file: the keys of the configuration's `links`, which are those between the devices of a process, and
/// `hosts`: {devices, latency_us, gbps, message_us, memory_gbps}.
struct LinksFile {
  std::optional<HostLinks> hosts;
  std::optional<ConfigNode> links;  ///< as the configuration has them; nothing where the file has none
};

/// Throws 78 for what it isn't, 66 where it isn't there.
LinksFile read_links_file(const std::filesystem::path& path);

/// What such links are between all devices, those of `pairs` left out.
LinkSpeed link_of_file(const ConfigNode& links);

/// Seconds that the calls of a world take, as dptrain makes them.
class CallTimes {
 public:
  struct Options {
    WorldShape world;
    std::vector<DeviceId> devices;  ///< of the first process
    const DeviceFigures& figures;
    std::optional<LinkSpec> links = {};  ///< that calls of one process are held to, as in training
    std::optional<HostLinks> hosts = {};
    /// GPUs of several hosts sum by NCCL; otherwise through host memory.
    bool over_nccl = false;
  };
  explicit CallTimes(const Options& options);

  /// Of a collective on links that nobody else uses. `calls`: of the ranks that are there, in order.
  double seconds(std::span<const LoggedCall* const> calls);
  /// Whose links it takes: the number of its root's process, or of the root within one; -1 for those of all.
  int place_of(const LoggedCall& call) const;

 private:
  double within_process(std::span<const LoggedCall* const> calls) const;
  double between_processes(const LoggedCall& call);
  /// NCCL's share of what a communicator does between processes: see make_nccl_world_communicators.
  bool is_of_nccl(const LoggedCall& call) const;
  double over_nccl(const CommCall& call) const;

  Options options_;
  std::optional<SimulatedLinks> simulated_;
  std::shared_ptr<StagingPool> pool_;
  /// By kind, elements, type, process whose part was planned.
  std::map<std::tuple<CommKind, int64_t, DType, int>, double> planned_;
};

}  // namespace dptrain::plan
