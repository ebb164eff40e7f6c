#include "comm/link_spec.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "device/device_list.h"

namespace dptrain {
namespace {

constexpr double kBitsPerGigabit = 1e9;

std::pair<DeviceId, DeviceId> ordered(const DeviceId& a, const DeviceId& b) {
  return a < b ? std::pair{a, b} : std::pair{b, a};
}

LinkSpeed read_speed(ConfigReader& options, const LinkSpeed& otherwise) {
  LinkSpeed speed = otherwise;
  if (const auto latency = options.optional_number(
          "latency_us", {.min = 0, .max = kMostLatency_us, .help = "microseconds until a first byte arrives"}))
    speed.latency_s = *latency * 1e-6;
  if (const auto gbps = options.optional_number(
          "gbps",
          {.min = kLeastGbps, .max = kMostGbps, .help = "gigabits that arrive in a second; by default no limit"}))
    speed.bytes_per_s = *gbps * kBitsPerGigabit / 8;
  return speed;
}

/// The two devices of "cpu:0-cpu:1", in either order. Notes a mistake if they aren't two devices of the list.
std::optional<std::pair<DeviceId, DeviceId>> pair_of(ConfigReader& pairs, const std::string& key,
                                                     const std::vector<DeviceId>& devices) {
  for (size_t i = 0; i < devices.size(); ++i)
    for (size_t j = 0; j < devices.size(); ++j)
      if (i != j && key == devices[i].name() + "-" + devices[j].name()) return ordered(devices[i], devices[j]);
  if (devices.empty()) {
    pairs.mistake(key, "expected no pairs, because devices that are given as a count have no names",
                  fmt::format("'{}'", key), "leave out the pairs, or list the devices, for example cpu:0-3");
    return std::nullopt;
  }
  pairs.mistake(key, "expected two devices of the list", fmt::format("'{}'", key),
                fmt::format("write for instance '{}-{}'", devices.front().name(), devices.back().name()));
  return std::nullopt;
}

}  // namespace

LinkSpeed LinkSpec::between(const DeviceId& a, const DeviceId& b) const {
  const auto found = pairs.find(ordered(a, b));
  return found == pairs.end() ? all : found->second;
}

LinkSpec read_link_speeds(ConfigReader& options, const std::vector<DeviceId>* devices) {
  LinkSpec links;
  links.all = read_speed(options, {});
  options.section(
      "pairs",
      [&](ConfigReader& pairs) {
        for (const std::string& key : pairs.written_keys()) {
          const bool may_name = devices != nullptr && !pairs.describing();
          const auto pair = may_name ? pair_of(pairs, key, *devices) : std::nullopt;
          if (pair && links.pairs.contains(*pair))
            pairs.mistake(key, "expected each link once", "the same two devices again", "leave out one of them");
          pairs.section(
              key,
              [&](ConfigReader& speed) {
                const LinkSpeed read = read_speed(speed, links.all);
                if (pair) links.pairs[*pair] = read;
              },
              "the link between two devices, 'cpu:0-cpu:1'; what is left out is as for all links");
        }
      },
      "links that differ from the others", "{'cpu:0-cpu:1': {gbps: 10}}");
  return links;
}

std::optional<LinkSpec> read_links(ConfigReader& config, const std::vector<DeviceId>& devices) {
  LinkSpec links;
  const bool written = config.has("links");
  config.section(
      "links", [&](ConfigReader& options) { links = read_link_speeds(options, &devices); },
      "simulated links between the devices, to rehearse another machine");
  return written ? std::optional(links) : std::nullopt;
}

}  // namespace dptrain
