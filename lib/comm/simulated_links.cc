#include "comm/simulated_links.h"

#include <algorithm>

namespace dptrain {

SimulatedLinks::SimulatedLinks(const LinkSpec& spec, const std::vector<DeviceId>& devices)
    : ranks_(static_cast<int>(devices.size())), free_at_(devices.size() * devices.size()) {
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
  // Of one step of the ring, with so many bytes over each of its links.
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

Clock::time_point SimulatedLinks::carry(std::span<const CommCall> calls, std::span<const int> ranks) {
  const auto lasts = std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds(calls, ranks)));
  const bool is_message = calls[0].kind == CommKind::send || calls[0].kind == CommKind::receive;
  std::vector<size_t> taken;
  for (const int a : ranks)
    for (const int b : ranks)
      if (a != b && !(is_message && a != ranks[0])) taken.push_back(static_cast<size_t>(a * ranks_ + b));
  const std::lock_guard lock(mutex_);
  Clock::time_point begin = Clock::now();
  for (const size_t pair : taken) begin = std::max(begin, free_at_[pair]);
  for (const size_t pair : taken) free_at_[pair] = begin + lasts;
  return begin + lasts;
}

}  // namespace dptrain
