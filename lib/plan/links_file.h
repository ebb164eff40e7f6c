#pragma once

#include <filesystem>
#include <optional>

#include "comm/link_spec.h"
#include "config/config_node.h"

namespace dptrain::plan {

/// What a process's cores take for what they exchange with other processes.
struct ExchangeFigures {
  double message_s = 0;    ///< of each message that it sends or receives
  double bytes_per_s = 0;  ///< at which they add up, and hand on what is sent and received
};

/// What joins the hosts of a cluster: a process each, with as many devices each.
struct HostLinks {
  int devices = 1;                 ///< of a host
  LinkSpeed link;                  ///< of a host, to all others together
  double message_s = 0;            ///< that a process spends on each message
  double message_bytes_per_s = 0;  ///< at which its cores hand on what it sends and receives; 0: no limit
  double memory_bytes_per_s = 0;   ///< at which a host adds up and copies; 0: no limit
  /// Further hosts with nothing but the servers of a key-value store; 0: these are on the hosts that train.
  int server_hosts = 0;
};

/// A links file: the keys of the configuration's `links`, which are those between the devices of a process, and
/// `hosts`: {devices, latency_us, gbps, message_us, message_gbps, memory_gbps, server_hosts}.
struct LinksFile {
  std::optional<HostLinks> hosts;
  std::optional<ConfigNode> links;  ///< as the configuration has them; nothing where the file has none
};

/// A host has one process.
inline constexpr int kMostDevicesOfHost = 64;

/// Throws 78 for what it isn't, 66 where it isn't there.
LinksFile read_links_file(const std::filesystem::path& path);

/// What such links are between all devices, those of `pairs` left out.
LinkSpeed link_of_file(const ConfigNode& links);

}  // namespace dptrain::plan
