#pragma once

#include <mutex>
#include <span>
#include <vector>

#include "base/clock.h"
#include "comm/comm_call.h"
#include "comm/link_spec.h"
#include "device/device_id.h"

namespace dptrain {

/// Links that communication between threads is held to: what is sent over one takes at least so long, one after the
/// other. Shared by all groups of a process's ranks; may be used by several threads.
///
/// A message takes its link for latency + bytes / bandwidth. A collective is carried as rings in the order of its ranks
/// carry it, whose steps last as long as the slowest link's: with N ranks, a buffer of S bytes and parts of P
///   all_reduce                   2 (N - 1) steps of S / N
///   reduce_scatter, all_gather   N - 1 steps of P
///   reduce, broadcast            N - 1 latencies and S, in pieces that follow each other along the ring
///   gather, scatter              each other rank's part over its link to the root, one after the other
///   barrier                      N - 1 latencies
/// and it takes all links between its ranks, until it ends.
class SimulatedLinks {
 public:
  /// `devices`: of rank 0, 1...
  SimulatedLinks(const LinkSpec& spec, const std::vector<DeviceId>& devices);

  /// How long the operation takes on links that nobody else uses. `calls`: of `ranks`, the sender and the receiver of a
  /// message.
  double seconds(std::span<const CommCall> calls, std::span<const int> ranks) const;
  /// Takes the links that it needs as soon as they are free, from now on; returns when its last byte arrives.
  Clock::time_point carry(std::span<const CommCall> calls, std::span<const int> ranks);

 private:
  const LinkSpeed& link(int a, int b) const { return links_[static_cast<size_t>(a * ranks_ + b)]; }

  int ranks_;
  std::vector<LinkSpeed> links_;  ///< of every ordered pair
  std::mutex mutex_;
  std::vector<Clock::time_point> free_at_;  ///< of every ordered pair: both ways at once
};

}  // namespace dptrain
