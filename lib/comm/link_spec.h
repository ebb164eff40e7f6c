#pragma once

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "config/config_reader.h"
#include "device/device_id.h"

namespace dptrain {

/// Of any link that is written down.
inline constexpr double kMostLatency_us = 10e6;
inline constexpr double kLeastGbps = 1e-3, kMostGbps = 1e6;

/// `amount` at a rate that may be without limit.
inline double seconds_at(double amount, double per_s) { return per_s > 0 ? amount / per_s : 0; }

/// What a link between two devices does, either way.
struct LinkSpeed {
  double latency_s = 0;
  double bytes_per_s = 0;  ///< 0: no limit

  double seconds(double bytes) const { return latency_s + seconds_at(bytes, bytes_per_s); }
};

/// The links of a machine that is rehearsed: one speed between all devices, and those of some pairs.
struct LinkSpec {
  LinkSpeed all;
  std::map<std::pair<DeviceId, DeviceId>, LinkSpeed> pairs;  ///< the smaller device first

  LinkSpeed between(const DeviceId& a, const DeviceId& b) const;
};

/// Reads the key `links`: {latency_us, gbps, pairs: {'cpu:0-cpu:1': {latency_us, gbps}}}; nothing where it isn't
/// written. A pair of devices that aren't listed is a mistake, and so is any where `devices` is empty.
std::optional<LinkSpec> read_links(ConfigReader& config, const std::vector<DeviceId>& devices);

}  // namespace dptrain
