#include "plan/cluster.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "comm/exchange_plan.h"
#include "config/config_document.h"
#include "config/config_reader.h"

namespace dptrain::plan {
namespace {

constexpr double kMicro = 1e-6, kBitsPerGigabit = 1e9;
constexpr int kMostDevicesOfHost = 64;

double bytes_of_gbps(double gbps) { return gbps * kBitsPerGigabit / 8; }

HostLinks read_hosts(ConfigReader& reader) {
  HostLinks hosts;
  hosts.devices = static_cast<int>(reader.integer("devices", std::nullopt, {.min = 1, .max = kMostDevicesOfHost}));
  hosts.link.latency_s = kMicro * reader.number("latency_us", 0, {.min = 0});
  hosts.link.bytes_per_s = bytes_of_gbps(reader.number("gbps", std::nullopt, {.min = 0, .exclusive_min = true}));
  hosts.message_s = kMicro * reader.number("message_us", 0, {.min = 0});
  hosts.memory_bytes_per_s = bytes_of_gbps(reader.number("memory_gbps", 0, {.min = 0}));
  return hosts;
}

/// Data of an operation that is planned and not made: no byte of it is read.
std::byte* nowhere() {
  static std::byte place;
  return &place;
}

double payload_bytes(const LoggedCall& call) { return static_cast<double>(call.call.payload().bytes()); }

}  // namespace

LinksFile read_links_file(const std::filesystem::path& path) {
  ConfigNode root = load_config(path);
  LinksFile file;
  if (const ConfigNode* hosts = root.find("hosts")) {
    ConfigNode own{.kind = ConfigNode::Kind::map, .origin = root.origin};
    own.map.emplace_back("hosts", *hosts);
    const ConfigSession session(own, [&](ConfigReader& reader) {
      reader.section("hosts", [&](ConfigReader& section) { file.hosts = read_hosts(section); });
    });
  }
  std::erase_if(root.map, [](const auto& entry) { return entry.first == "hosts"; });
  if (!root.map.empty()) file.links = std::move(root);
  return file;
}

LinkSpeed link_of_file(const ConfigNode& links) {
  ConfigNode root{.kind = ConfigNode::Kind::map, .origin = links.origin};
  root.map.emplace_back("links", links);
  std::optional<LinkSpec> read;
  const ConfigSession session(root, [&](ConfigReader& reader) { read = read_links(reader, {}); });
  return read->all;
}

CallTimes::CallTimes(const Options& options) : options_(options), pool_(StagingPool::make()) {
  if (options_.links) simulated_.emplace(*options_.links, options_.devices);
}

double CallTimes::seconds(std::span<const LoggedCall* const> calls) {
  if (calls.front()->ranks == 1) return 0;
  return options_.world.processes() > 1 ? between_processes(*calls.front()) : within_process(calls);
}

int CallTimes::place_of(const LoggedCall& call) const {
  // Simulated links are taken by one collective after the other.
  if (simulated_ || call.call.other < 0) return -1;
  return options_.world.processes() > 1 ? options_.world.process_of(call.call.other) : call.call.other;
}

double CallTimes::within_process(std::span<const LoggedCall* const> calls) const {
  const LoggedCall& first = *calls.front();
  if (simulated_) {
    std::vector<CommCall> made;
    std::vector<int> ranks;
    for (const LoggedCall* call : calls) {
      made.push_back(call->call);
      ranks.push_back(static_cast<int>(ranks.size()));
    }
    return simulated_->seconds(made, ranks);
  }
  // Ranks read each other's memory. What the busiest of them reads or has read from it, in how many rounds:
  const auto n = static_cast<double>(first.ranks);
  double rounds = 1, bytes = 0;
  switch (first.call.kind) {
    case CommKind::all_reduce:  // each adds up its n-th part, then all read all parts
      rounds = 2;
      bytes = 2 * (n - 1) / n * payload_bytes(first);
      break;
    case CommKind::reduce:
      rounds = 2;
      bytes = 2 * (n - 1) / n * payload_bytes(first);
      break;
    case CommKind::reduce_scatter: bytes = (n - 1) * static_cast<double>(first.call.out.bytes()); break;
    case CommKind::all_gather:
    case CommKind::broadcast: bytes = (n - 1) * payload_bytes(first); break;
    case CommKind::gather:
    case CommKind::scatter:
      for (size_t r = 0; r < calls.size(); ++r)
        if (static_cast<int>(r) != first.call.other) bytes += payload_bytes(*calls[r]);
      break;
    case CommKind::send:
    case CommKind::receive: bytes = payload_bytes(first); break;
    case CommKind::barrier: break;
  }
  const DeviceFigures& figures = options_.figures;
  const bool of_host = first.over_host && figures.staging_bytes_per_s > 0;
  return rounds * figures.inside.latency_s +
         bytes / (of_host ? figures.staging_bytes_per_s : figures.inside.bytes_per_s);
}

bool CallTimes::is_of_nccl(const LoggedCall& logged) const {
  if (!options_.over_nccl || logged.over_host) return false;
  switch (logged.call.kind) {
    case CommKind::all_reduce:
    case CommKind::reduce:
    case CommKind::reduce_scatter: return dtype_bytes(logged.call.payload().dtype) >= 4;
    case CommKind::broadcast:
    case CommKind::all_gather: return true;
    default: return false;
  }
}

/// Bytes go round all GPUs in rings, as fast as the slowest link lets them, which each host's own is at most one of;
/// what little ones take is the depth of a tree over the hosts.
double CallTimes::over_nccl(const CommCall& call) const {
  const HostLinks& hosts = *options_.hosts;
  const DeviceFigures& figures = options_.figures;
  const auto n = static_cast<double>(options_.world.ranks());
  double bytes = payload_bytes({.call = call}), depth = std::ceil(std::log2(options_.world.processes()));
  if (call.kind == CommKind::all_reduce) {
    bytes *= 2 * (n - 1) / n;
    depth *= 2;
  } else if (call.kind == CommKind::reduce_scatter) {
    bytes = (n - 1) * static_cast<double>(call.out.bytes());
  } else if (call.kind == CommKind::all_gather) {
    bytes = (n - 1) * static_cast<double>(call.in.bytes());
  }
  const double latency_s = depth * hosts.link.latency_s + 2 * figures.inside.latency_s;
  return latency_s + bytes / std::min(hosts.link.bytes_per_s, figures.inside.bytes_per_s);
}

double CallTimes::between_processes(const LoggedCall& logged) {
  if (is_of_nccl(logged)) return over_nccl(logged.call);
  const CommCall& call = logged.call;
  const CommBuffer& payload = call.payload();
  const int process = call.other >= 0 ? options_.world.process_of(call.other) : 0;
  const auto key = std::tuple(call.kind, payload.elements, payload.dtype, process);
  if (const auto found = planned_.find(key); found != planned_.end()) return found->second;

  CommCall planned = call;
  if (planned.in.elements > 0) planned.in.data = nowhere();
  if (planned.out.elements > 0) planned.out.data = nowhere();
  const std::vector<CommCall> calls(static_cast<size_t>(options_.world.ranks_of(process).size()), planned);
  const ExchangePlan plan = plan_exchange(calls, options_.world, process, *pool_);
  const HostLinks& hosts = *options_.hosts;
  double seconds = 0;
  for (const ExchangeStage& stage : plan.stages) {
    double sent = 0, received = 0, added = 0;
    for (const ExchangeMessage& message : stage.messages)
      (message.sends ? sent : received) += static_cast<double>(message.bytes);
    for (const TreeSum& sum : stage.sums)
      added += static_cast<double>(sum.inputs.size() + sum.outputs.size()) *
               static_cast<double>(sum.elements * dtype_bytes(sum.dtype));
    if (hosts.memory_bytes_per_s > 0) seconds += added / hosts.memory_bytes_per_s;
    if (stage.messages.empty()) continue;
    seconds +=
        static_cast<double>(stage.messages.size()) * hosts.message_s + hosts.link.seconds(std::max(sent, received));
  }
  // A GPU's buffer goes to host memory and comes back.
  if (options_.figures.staging_bytes_per_s > 0)
    seconds += 2 * static_cast<double>(payload.bytes()) / options_.figures.staging_bytes_per_s;
  planned_.emplace(key, seconds);
  return seconds;
}

}  // namespace dptrain::plan
