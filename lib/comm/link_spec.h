#pragma once

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "config/config_reader.h"
#include "device/device_id.h"

namespace dptrain {

/// Limits of every link in a config.
inline constexpr double kMostLatency_us = 10e6;
inline constexpr double kLeastGbps = 1e-3, kMostGbps = 1e6;

/// `amount` at a rate of `per_s`; a rate of 0 has no limit.
inline double seconds_at(double amount, double per_s) { return per_s > 0 ? amount / per_s : 0; }

/// The speed of a link between two devices, the same both ways.
struct LinkSpeed {
  double latency_s = 0;
  double bytes_per_s = 0;  ///< 0: no limit

  double seconds(double bytes) const { return latency_s + seconds_at(bytes, bytes_per_s); }
};

/// The links of a simulated machine: one speed for all pairs of devices, and other speeds for some pairs.
struct LinkSpec {
  LinkSpeed all;
  std::map<std::pair<DeviceId, DeviceId>, LinkSpeed> pairs;  ///< the smaller device first

  LinkSpeed between(const DeviceId& a, const DeviceId& b) const;
};

/// Reads the keys latency_us, gbps and pairs, which are the options of `links`. The names of the pairs are compared
/// with `devices`; with null they may be anything, and no pair is returned.
LinkSpec read_link_speeds(ConfigReader& options, const std::vector<DeviceId>* devices);

/// Reads the key `links`: {latency_us, gbps, pairs: {'cpu:0-cpu:1': {latency_us, gbps}}}. Returns nothing if the key is
/// missing. A pair with a device that isn't in `devices` is a mistake; with empty `devices` every pair is one.
std::optional<LinkSpec> read_links(ConfigReader& config, const std::vector<DeviceId>& devices);

}  // namespace dptrain
