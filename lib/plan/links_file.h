#pragma once

#include <filesystem>
#include <optional>

#include "comm/link_spec.h"
#include "config/config_node.h"

namespace dptrain::plan {

/// The time that a process's cores spend on exchanges with other processes.
struct ExchangeFigures {
  double message_s = 0;    ///< for each message that it sends or receives
  double bytes_per_s = 0;  ///< rate at which they add up, and pass on what is sent and received
};

/// The links between the hosts of a cluster. Each host has one process, and all have as many devices.
struct HostLinks {
  int devices = 1;                 ///< of each host
  LinkSpeed link;                  ///< between a host and all others together
  double message_s = 0;            ///< CPU time of a process for each message
  double message_bytes_per_s = 0;  ///< rate at which its cores pass on what it sends and receives; 0: no limit
  double memory_bytes_per_s = 0;   ///< rate at which a host adds up and copies; 0: no limit
  /// Further hosts that only run the servers of a key-value store; 0: the servers are on the hosts that train.
  int server_hosts = 0;
};

/// A links file. It has the keys of the configuration's `links`, for the links between devices of one process, and
/// `hosts`: {devices, latency_us, gbps, message_us, message_gbps, memory_gbps, server_hosts}.
struct LinksFile {
  std::optional<HostLinks> hosts;
  std::optional<ConfigNode> links;  ///< in the configuration's form; nothing if the file has none
};

/// The most devices of one host, which has one process.
inline constexpr int kMostDevicesOfHost = 64;

/// Reads a links file. Throws 78 for a mistake in it, 66 if it is missing.
LinksFile read_links_file(const std::filesystem::path& path);

/// The link that the file gives for all pairs of devices; entries of `pairs` are ignored.
LinkSpeed link_of_file(const ConfigNode& links);

}  // namespace dptrain::plan
