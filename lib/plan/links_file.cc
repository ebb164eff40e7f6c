#include "plan/links_file.h"

#include <utility>

#include "config/config_document.h"
#include "config/config_reader.h"

namespace dptrain::plan {
namespace {

constexpr double kMicro = 1e-6, kBitsPerGigabit = 1e9;
constexpr int kMostHosts = 4096;

double bytes_of_gbps(double gbps) { return gbps * kBitsPerGigabit / 8; }

HostLinks read_hosts(ConfigReader& reader) {
  HostLinks hosts;
  hosts.devices = static_cast<int>(reader.integer("devices", std::nullopt, {.min = 1, .max = kMostDevicesOfHost}));
  hosts.link.latency_s = kMicro * reader.number("latency_us", 0, {.min = 0, .max = kMostLatency_us});
  hosts.link.bytes_per_s = bytes_of_gbps(reader.number("gbps", std::nullopt, {.min = kLeastGbps, .max = kMostGbps}));
  hosts.message_s = kMicro * reader.number("message_us", 0, {.min = 0, .max = kMostLatency_us});
  hosts.message_bytes_per_s = bytes_of_gbps(reader.number("message_gbps", 0, {.min = 0}));
  hosts.memory_bytes_per_s = bytes_of_gbps(reader.number("memory_gbps", 0, {.min = 0}));
  hosts.server_hosts = static_cast<int>(reader.integer("server_hosts", 0, {.min = 0, .max = kMostHosts}));
  return hosts;
}

}  // namespace

LinksFile read_links_file(const std::filesystem::path& path) {
  ConfigNode root = load_config(path, "hosts: {devices: 8, gbps: 400}");
  LinksFile file;
  const ConfigSession session(root, [&](ConfigReader& reader) {
    // Without hosts there is nothing to read, but the key is one of those that may be written.
    const bool has_hosts = root.find("hosts") != nullptr;
    const auto read = [&](ConfigReader& section) {
      if (has_hosts) file.hosts = read_hosts(section);
    };
    reader.section("hosts", read, {}, "{devices: 8, gbps: 400}");
    // The devices aren't known yet, so the names of the pairs are checked later.
    read_link_speeds(reader, nullptr);
  });
  std::erase_if(root.map, [](const auto& entry) { return entry.first == "hosts"; });
  if (!root.map.empty()) file.links = std::move(root);
  return file;
}

LinkSpeed link_of_file(const ConfigNode& links) {
  LinkSpec read;
  const std::vector<DeviceId> no_names;
  const ConfigSession session(links, [&](ConfigReader& reader) { read = read_link_speeds(reader, &no_names); });
  return read.all;
}

}  // namespace dptrain::plan
