#include "plan/call_times.h"

#include <algorithm>
#include <cmath>

#include "comm/send_window.h"
#include "plan/tree_seconds.h"

namespace dptrain::plan {
namespace {

/// The data address of a planned operation; no byte of it is read.
std::byte* nowhere() {
  static std::byte place;
  return &place;
}

double payload_bytes(const LoggedCall& call) { return static_cast<double>(call.call.payload().bytes()); }

bool is_message(const LoggedCall& call) {
  return call.call.kind == CommKind::send || call.call.kind == CommKind::receive;
}

/// The world's number of a rank of the call's group.
int world_rank(const LoggedCall& call, int rank) {
  return call.members ? (*call.members)[static_cast<size_t>(rank)] : rank;
}

/// The bytes that a stage moves and adds up.
struct StageBytes {
  double sent = 0;
  double received = 0;
  double added = 0;
};

StageBytes bytes_of(const ExchangeStage& stage) {
  StageBytes bytes;
  for (const ExchangeMessage& message : stage.messages)
    (message.sends ? bytes.sent : bytes.received) += static_cast<double>(message.bytes);
  for (const TreeSum& sum : stage.sums)
    bytes.added += static_cast<double>(sum.inputs.size() + sum.outputs.size()) *
                   static_cast<double>(sum.elements * dtype_bytes(sum.dtype));
  return bytes;
}

/// The ranks of a message, as the world numbers them.
struct MessageEnds {
  int from = 0;
  int to = 0;
};

MessageEnds ends_of(const LoggedCall& call) {
  const int own = world_rank(call, call.rank), other = world_rank(call, call.call.other);
  return call.call.kind == CommKind::send ? MessageEnds{own, other} : MessageEnds{other, own};
}

}  // namespace

CallTimes::CallTimes(const Options& options) : options_(options), pool_(StagingPool::make()) {
  if (options_.links) simulated_.emplace(*options_.links, options_.devices);
}

WorldShape CallTimes::shape_of(const LoggedCall& call) const {
  return call.members ? shape_of_ranks(options_.world, *call.members) : options_.world;
}

CallCost CallTimes::cost(std::span<const LoggedCall* const> calls) {
  const LoggedCall& first = *calls.front();
  if (first.ranks == 1) return {};
  if (is_message(first)) {
    const auto [from, to] = ends_of(first);
    if (process_of(from) != process_of(to)) return message_between_processes(first);
  } else if (shape_of(first).processes() > 1) {
    return between_processes(first);
  }
  return {.seconds = within_process(calls), .work_s = 0};
}

std::vector<int> CallTimes::links_of(const LoggedCall& call) const {
  // Links are numbered in this order: of processes, of what leaves and what enters each process, and of pairs of ranks.
  const int processes = options_.world.processes(), ranks = options_.world.ranks();
  const auto pair = [&](int from, int to) { return 3 * processes + ranks + from * ranks + to; };
  if (is_message(call)) {
    const auto [from, to] = ends_of(call);
    if (process_of(from) == process_of(to)) return {pair(from, to)};
    return {processes + 2 * process_of(from), processes + 2 * process_of(to) + 1};
  }
  if (simulated_ || processes == 1) {
    if (!simulated_ && call.call.other >= 0) return {3 * processes + world_rank(call, call.call.other)};
    if (!call.members) return {};
    std::vector<int> pairs;
    for (const int from : *call.members)
      for (const int to : *call.members)
        if (from != to) pairs.push_back(pair(from, to));
    return pairs;
  }
  if (call.call.other >= 0) return {process_of(world_rank(call, call.call.other))};
  return {};
}

double CallTimes::on_its_way_s(const LoggedCall& call) const {
  if (!options_.hosts || shape_of(call).processes() == 1) return 0;
  return seconds_at(static_cast<double>(SendWindow::kBytes), options_.hosts->link.bytes_per_s);
}

double CallTimes::on_simulated_links(std::span<const LoggedCall* const> calls) const {
  const LoggedCall& first = *calls.front();
  if (is_message(first)) {
    const auto [from, to] = ends_of(first);
    return simulated_->seconds(std::vector{first.call}, std::vector{from, to});
  }
  std::vector<CommCall> made;
  std::vector<int> ranks;
  for (const LoggedCall* call : calls) {
    made.push_back(call->call);
    ranks.push_back(world_rank(*call, call->rank));
  }
  return simulated_->seconds(made, ranks);
}

double CallTimes::within_process(std::span<const LoggedCall* const> calls) const {
  const LoggedCall& first = *calls.front();
  // Copies in host memory use no link between devices.
  if (simulated_ && !first.over_host) return on_simulated_links(calls);
  // Ranks read each other's memory. The time follows from the bytes that the busiest rank reads, or that are read from
  // it, and from the number of rounds:
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
         seconds_at(bytes, of_host ? figures.staging_bytes_per_s : figures.inside.bytes_per_s);
}

bool CallTimes::is_of_nccl(const LoggedCall& logged) const {
  if (!options_.over_nccl || logged.over_host) return false;
  switch (logged.call.kind) {
    case CommKind::all_reduce:
    case CommKind::reduce:
    case CommKind::reduce_scatter:
    case CommKind::broadcast:
    case CommKind::all_gather:
    case CommKind::send:
    case CommKind::receive: return true;
    default: return false;
  }
}

/// Large buffers go round all GPUs in rings, as fast as the slowest link, which is at most each host's own link. The
/// time of small ones is the depth of a tree over the hosts.
double CallTimes::over_nccl(const LoggedCall& logged) const {
  const CommCall& call = logged.call;
  const HostLinks& hosts = *options_.hosts;
  const DeviceFigures& figures = options_.figures;
  const auto n = static_cast<double>(logged.ranks);
  double bytes = payload_bytes(logged), depth = std::ceil(std::log2(shape_of(logged).processes()));
  if (call.kind == CommKind::all_reduce) {
    bytes *= 2 * (n - 1) / n;
    depth *= 2;
  } else if (call.kind == CommKind::reduce_scatter) {
    bytes = (n - 1) * static_cast<double>(call.out.bytes());
  } else if (call.kind == CommKind::all_gather) {
    bytes = (n - 1) * static_cast<double>(call.in.bytes());
  }
  const double latency_s = depth * hosts.link.latency_s + 2 * figures.inside.latency_s;
  return latency_s + std::max(seconds_at(bytes, hosts.link.bytes_per_s), seconds_at(bytes, figures.inside.bytes_per_s));
}

CallCost CallTimes::cost_of(const ExchangeStage& stage) const {
  const HostLinks& hosts = *options_.hosts;
  const auto [sent, received, added] = bytes_of(stage);
  const double adding = seconds_at(added, hosts.memory_bytes_per_s);
  if (stage.messages.empty()) return {.seconds = adding, .work_s = adding};
  const double messages = static_cast<double>(stage.messages.size()) * hosts.message_s;
  // The cores pass on bytes while other bytes are on the link.
  const double handing_on = seconds_at(sent + received, hosts.message_bytes_per_s);
  return {.seconds = adding + messages + std::max(hosts.link.seconds(std::max(sent, received)), handing_on),
          .work_s = adding + messages + handing_on};
}

ExchangePlan CallTimes::exchange_of(const LoggedCall& logged, const WorldShape& shape, int process) const {
  CommCall planned = logged.call;
  if (planned.in.elements > 0) planned.in.data = nowhere();
  if (planned.out.elements > 0) planned.out.data = nowhere();
  const std::vector<CommCall> calls(static_cast<size_t>(shape.ranks_of(process).size()), planned);
  return plan_exchange(calls, shape, process, *pool_);
}

Exchanged CallTimes::exchanged(const LoggedCall& call) {
  const WorldShape shape = shape_of(call);
  if (is_message(call) || shape.processes() == 1) return {};
  Exchanged all;
  for (const ExchangeStage& stage : exchange_of(call, shape, 0).stages) {
    const auto [sent, received, added] = bytes_of(stage);
    all.bytes += sent + received + added;
    all.messages += static_cast<double>(stage.messages.size());
  }
  return all;
}

void CallTimes::set_exchange(const ExchangeFigures& figures) {
  options_.hosts->memory_bytes_per_s = options_.hosts->message_bytes_per_s = figures.bytes_per_s;
  options_.hosts->message_s = figures.message_s;
  planned_.clear();
}

CallCost CallTimes::between_processes(const LoggedCall& logged) {
  const CommCall& call = logged.call;
  if (is_of_nccl(logged) && !goes_by_tree(call, tree_sums(options_.deterministic)))
    return {.seconds = over_nccl(logged), .work_s = 0};
  const CommBuffer& payload = call.payload();
  const WorldShape shape = shape_of(logged);
  const int process = call.other >= 0 ? shape.process_of(call.other) : 0;
  const auto key = std::tuple(logged.group, call.kind, payload.elements, payload.dtype, process);
  if (const auto found = planned_.find(key); found != planned_.end()) return found->second;

  CallCost cost;
  if (is_of_nccl(logged)) {
    cost.seconds = tree_seconds(call, shape, *options_.hosts, options_.figures);
    planned_.emplace(key, cost);
    return cost;
  }
  for (const ExchangeStage& stage : exchange_of(logged, shape, process).stages) {
    const CallCost of_stage = cost_of(stage);
    cost.seconds += of_stage.seconds;
    cost.work_s += of_stage.work_s;
  }
  // A GPU's buffer is copied to host memory and back.
  cost.seconds += 2 * seconds_at(static_cast<double>(payload.bytes()), options_.figures.staging_bytes_per_s);
  planned_.emplace(key, cost);
  return cost;
}

CallCost CallTimes::message_between_processes(const LoggedCall& logged) const {
  const double bytes = payload_bytes(logged);
  const HostLinks& hosts = *options_.hosts;
  if (is_of_nccl(logged))
    return {.seconds = 2 * options_.figures.inside.latency_s + hosts.link.seconds(bytes), .work_s = 0};
  // Each side makes a copy.
  const double copying = seconds_at(2 * bytes, hosts.memory_bytes_per_s);
  const double handing_on = seconds_at(bytes, hosts.message_bytes_per_s);
  const double staging = seconds_at(bytes, options_.figures.staging_bytes_per_s);
  return {.seconds = 2 * (copying + staging) + hosts.message_s + std::max(hosts.link.seconds(bytes), handing_on),
          .work_s = copying + hosts.message_s + handing_on};
}

}  // namespace dptrain::plan
