#include "comm/simulated_links.h"

#include <algorithm>

namespace dptrain {
SimulatedLinks::SimulatedLinks(const LinkSpec& spec, const std::vector<DeviceId>& devices)
    : ranks_(static_cast<int>(devices.size())) {
  for (const DeviceId& a : devices)
    for (const DeviceId& b : devices) links_.push_back(spec.between(a, b));
}

double SimulatedLinks::seconds(std::span<const CommCall> calls, std::span<const int> ranks) const {
  const CommCall& call = calls[0];
  const auto bytes = static_cast<double>(call.payload().bytes());
  if (call.kind == CommKind::send || call.kind == CommKind::receive) return link(ranks[0], ranks[1]).seconds(bytes);

  const size_t size = ranks.size();
  if (call.kind == CommKind::gather || call.kind == CommKind::scatter) {
    double sum = 0;
    for (size_t r = 0; r < size; ++r)
      if (static_cast<int>(r) != call.other)
        sum += link(ranks[r], ranks[static_cast<size_t>(call.other)])
                   .seconds(static_cast<double>(calls[r].payload().bytes()));
    return sum;
  }
  // Seconds of one step of the ring, with `step_bytes` over each of its links.
  const auto step = [&](double step_bytes) {
    double slowest = 0;
    for (size_t r = 0; r < size; ++r)
      slowest = std::max(slowest, link(ranks[r], ranks[(r + 1) % size]).seconds(step_bytes));
    return slowest;
  };
  const auto steps = static_cast<double>(size - 1);
  if (size == 1) return 0;
  switch (call.kind) {
    case CommKind::all_reduce: return 2 * steps * step(bytes / static_cast<double>(size));
    case CommKind::reduce_scatter: return steps * step(static_cast<double>(call.out.bytes()));
    case CommKind::all_gather: return steps * step(bytes);
    case CommKind::reduce:
    case CommKind::broadcast: return (steps - 1) * step(0) + step(bytes);
    default: return steps * step(0);
  }
}

int64_t SimulatedLinks::carry(std::span<const CommCall> calls, std::span<const int> ranks) {
  const bool is_message = calls[0].kind == CommKind::send || calls[0].kind == CommKind::receive;
  UnderWay operation{
      .priority = calls[0].priority,
      .pairs = {},
      .left = std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds(calls, ranks)))};
  for (const int a : ranks)
    for (const int b : ranks)
      if (a != b && !(is_message && a != ranks[0])) operation.pairs.push_back(static_cast<size_t>(a * ranks_ + b));
  const std::lock_guard lock(mutex_);
  go_on_to_now();
  operation.number = carried_++;
  const auto behind =
      std::ranges::find_if(under_way_, [&](const UnderWay& other) { return other.priority < operation.priority; });
  return under_way_.insert(behind, std::move(operation))->number;
}

Clock::time_point SimulatedLinks::arrival(int64_t operation) {
  const std::lock_guard lock(mutex_);
  go_on_to_now();
  if (const auto known = arrived_.find(operation); known != arrived_.end()) return known->second;
  std::vector<UnderWay> queue = under_way_;
  Arrivals later;
  go_on(queue, as_of_, {.time = Clock::time_point::max(), .arrival_of = operation}, later);
  const auto foreseen = later.find(operation);
  return foreseen != later.end() ? foreseen->second : as_of_;
}

void SimulatedLinks::go_on_to_now() {
  constexpr size_t kRemembered = 512;
  const Clock::time_point now = Clock::now();
  go_on(under_way_, as_of_, {.time = now}, arrived_);
  as_of_ = now;
  while (arrived_.size() > kRemembered) arrived_.erase(arrived_.begin());
}

void SimulatedLinks::go_on(std::vector<UnderWay>& queue, Clock::time_point from, const Until& until,
                           Arrivals& arrived) const {
  while (!queue.empty() && !arrived.contains(until.arrival_of)) {
    // An earlier operation in the queue blocks its links for all others, even while it waits for another link itself.
    std::vector<bool> taken(links_.size());
    std::vector<UnderWay*> moving;
    for (UnderWay& operation : queue) {
      if (std::ranges::none_of(operation.pairs, [&](size_t pair) { return taken[pair]; })) moving.push_back(&operation);
      for (const size_t pair : operation.pairs) taken[pair] = true;
    }
    Clock::duration lasts = until.time - from;
    for (const UnderWay* operation : moving) lasts = std::min(lasts, operation->left);
    from += lasts;
    bool any = false;
    for (UnderWay* operation : moving) {
      operation->left -= lasts;
      if (operation->left != Clock::duration::zero()) continue;
      arrived[operation->number] = from;
      any = true;
    }
    if (!any) return;
    std::erase_if(queue, [&](const UnderWay& operation) { return arrived.contains(operation.number); });
  }
}

}  // namespace dptrain
