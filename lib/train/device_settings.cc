#include "train/device_settings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <numeric>
#include <optional>

#include "base/error.h"
#include "comm/tree_sum.h"
#include "comm/world_shape.h"
#include "device/device_list.h"
#include "device/host_machine.h"

namespace dptrain::train {
namespace {

/// A list of devices as the user wrote it, and the beginning of messages about it.
struct WrittenList {
  std::vector<std::string> items;
  std::string where;
};

std::string joined(const std::vector<std::string>& list) { return fmt::format("{}", fmt::join(list, ",")); }

/// Reports a list that no process could read. All processes of a job report it, not only those on its host.
void check_list(ConfigReader& hosts, const std::string& host, const std::vector<std::string>& list) {
  try {
    parse_device_list(joined(list), hosts.where(host));
  } catch (const Error& error) {
    hosts.doubt(host, error, {});
  }
}

/// The list for this host, if there is one.
std::optional<WrittenList> read_hosts(ConfigReader& config, const ConfigJob& job) {
  std::optional<WrittenList> own;
  config.section(
      "hosts",
      [&](ConfigReader& hosts) {
        const std::vector<std::string> names = hosts.written_keys();
        for (const std::string& name : names) {
          const auto list = hosts.texts(name, {}, "the devices of this host's processes");
          if (name == job.host)
            own = WrittenList{list, hosts.where(name)};
          else if (!hosts.describing())
            check_list(hosts, name, list);
        }
        // Alone, the host may use `devices` instead of the list that names it for a job.
        const bool needs_own = job.processes > 1 || !config.has("devices");
        if (!hosts.describing() && !job.planned_devices && !names.empty() && !own && needs_own && job.trains())
          config.mistake("hosts", fmt::format("expected the devices of host '{}'", job.host),
                         fmt::format("those of {}", fmt::join(names, ", ")),
                         "add it, under the name that `hostname` prints, or write devices");
      },
      "device lists by host name, for hosts that differ; a host's list replaces devices there", "{a: [cpu:0-1]}");
  return own;
}

/// Keys whose values must fit the devices.
constexpr std::array<std::string_view, 8> kMeasuredByDevices = {
    "threads", "per_device_batch_size", "strategy", "split", "shards", "links", "precision", "convolution"};

std::vector<DeviceId> read_devices(ConfigReader& config, const ConfigJob& job) {
  auto written = config.texts("devices", {"auto"},
                              "where to train: cpu:N is a logical CPU worker, cuda:N a GPU; ranges like cpu:0-3, "
                              "auto (all GPUs, else cpu:0) or auto:N. Each of several processes has these; "
                              "cuda:local gives those of a host a GPU each");
  const auto of_host = read_hosts(config, job);
  if (config.describing()) return {DeviceId{}};
  if (job.planned_devices) return *job.planned_devices;
  if (!job.trains()) return {};
  if (of_host) written = of_host->items;
  const std::string where_listed = of_host ? of_host->where : config.where("devices");
  std::vector<DeviceId> devices;
  try {
    devices = parse_device_list(joined(written), where_listed, job.place_on_host());
    if (!job.needs_no_devices) require_devices(devices, where_listed);
  } catch (const Error& error) {
    if (job.processes > 1) throw;  // the other processes wait for this one's devices
    if (devices.empty()) {
      config.doubt(of_host ? "hosts" : "devices", error, kMeasuredByDevices);
      return {DeviceId{}};
    }
    config.fail_at_end(error);
  }
  // The meaning of ":local" depends on the process, so lists with it are kept as written.
  if (std::ranges::any_of(written, [](const std::string& list) { return list.find(":local") != list.npos; }))
    return devices;
  std::vector<std::string> names;
  for (const auto& device : devices) names.push_back("'" + device.name() + "'");
  // Shortens "a.yaml:4:1: devices" to "a.yaml:4", in the form in which other values name their origin, and "--devices:
  // devices" to "--devices".
  std::string where = config.where("devices");
  where.resize(std::min(where.rfind(": "), where.size()));
  where.resize(std::min(where.rfind(':'), where.size()));
  config.resolve("devices", fmt::format("[{}]", fmt::join(names, ", ")), config.has("devices") ? where : "default");
  return devices;
}

/// Threads: one number for all devices, or one for each. By default the process's cores are shared out, at least one
/// for each device.
std::vector<int> read_threads(ConfigReader& config, size_t devices, int workers_of_host) {
  const int64_t sharers = static_cast<int64_t>(devices) * workers_of_host;
  const int64_t share = std::max<int64_t>(1, usable_cores() / sharers);
  auto threads =
      config.integers("threads", std::vector<int64_t>{share},
                      {.min = 1,
                       .max = 1024,
                       .help = "CPU threads of each device; by default the process's cores divided by its devices"});
  config.default_varies("threads");
  if (threads.size() == 1) threads.resize(devices, threads[0]);
  if (threads.size() != devices) {
    config.mistake("threads", fmt::format("expected one number, or one for each of the {} devices", devices),
                   fmt::format("{}", threads.size()), "write for instance threads: 1");
    threads.assign(devices, 1);
  }
  return {threads.begin(), threads.end()};
}

/// Adds the number of devices of each process that trains.
void add_other_processes(DeviceSettings& settings, const ConfigJob& job) {
  const std::vector<std::vector<DeviceId>> all = job.exchange_devices(settings.devices);
  for (int process = 0; process < std::max(1, job.workers()); ++process)
    settings.devices_of_processes.push_back(static_cast<int>(all[static_cast<size_t>(process)].size()));
  if (!job.trains()) settings.devices = all.front();
}

}  // namespace

int store_servers_of(const ConfigNode& root) {
  const ConfigNode* strategy = root.find("strategy");
  const ConfigNode* servers = strategy != nullptr ? strategy->find("servers") : nullptr;
  if (servers == nullptr || servers->kind != ConfigNode::Kind::scalar) return 0;
  const std::string& text = servers->scalar;
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() ? std::max(0, number) : 0;
}

int ConfigJob::workers_of_host() const {
  if (hosts.empty()) return 1;
  const auto end = hosts.begin() + std::max(0, workers());
  const auto here = std::count(hosts.begin(), end, hosts[static_cast<size_t>(process)]);
  return std::max(1, static_cast<int>(here));
}

int ConfigJob::place_on_host() const {
  if (hosts.empty()) return 0;
  const auto own = hosts.begin() + process;
  return static_cast<int>(std::count(hosts.begin(), own, *own));
}

int DeviceSettings::world_devices() const {
  return std::accumulate(devices_of_processes.begin(), devices_of_processes.end(), 0);
}

DeviceSettings read_device_settings(ConfigReader& config, const ConfigJob& job) {
  DeviceSettings settings;
  settings.devices = read_devices(config, job);
  if (job.processes > 1 && !config.describing())
    add_other_processes(settings, job);
  else
    settings.devices_of_processes = {static_cast<int>(settings.devices.size())};
  settings.threads = read_threads(config, settings.devices.size(), job.workers_of_host());
  if (job.processes > 1 && settings.devices.size() > kMostRanksOfProcess)
    config.mistake(
        "devices", fmt::format("expected at most {} per process in a job of several processes", kMostRanksOfProcess),
        fmt::format("{}", settings.devices.size()), "start more processes on this host, each with fewer devices");
  if (settings.world_devices() > kMostRanks)
    config.mistake("devices", fmt::format("expected at most {} in all", kMostRanks),
                   fmt::format("{}", settings.world_devices()), "train on fewer");
  return settings;
}

}  // namespace dptrain::train
