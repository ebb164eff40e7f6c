#pragma once

#include <map>
#include <mutex>
#include <span>
#include <vector>

#include "base/clock.h"
#include "comm/comm_call.h"
#include "comm/link_spec.h"
#include "device/device_id.h"

namespace dptrain {

/// Simulated links that slow down communication between threads. Operations use a link one after the other, and each
/// takes at least its simulated time. One with a higher priority goes first and interrupts others. Shared by all groups
/// of a process's ranks; several threads may use it.
///
/// A message takes its link for latency + bytes / bandwidth. A collective takes as long as rings in the order of its
/// ranks would, and every step lasts as long as on the slowest link. With N ranks, a buffer of S bytes and parts of P
/// bytes:
///   all_reduce                   2 (N - 1) steps of S / N
///   reduce_scatter, all_gather   N - 1 steps of P
///   reduce, broadcast            N - 1 latencies and S, in pieces that follow each other along the ring
///   gather, scatter              each other rank's part over its link to the root, one after the other
///   barrier                      N - 1 latencies
/// A collective takes all links between its ranks until it ends. The next operation on a link waits until all links
/// that it needs are free.
class SimulatedLinks {
 public:
  /// `devices` are those of rank 0, 1...
  SimulatedLinks(const LinkSpec& spec, const std::vector<DeviceId>& devices);

  /// How long the operation takes on links that nobody else uses. `calls` are those of `ranks`; for a message these are
  /// the sender and the receiver.
  double seconds(std::span<const CommCall> calls, std::span<const int> ranks) const;
  /// Gives the operation to its links now. Returns its number, from 0.
  int64_t carry(std::span<const CommCall> calls, std::span<const int> ranks);
  /// When the operation's last byte arrives, or arrived. Later than an earlier answer if something more urgent came
  /// since. For an operation that hundreds have followed: some time after its arrival.
  Clock::time_point arrival(int64_t operation);

 private:
  struct UnderWay {
    int64_t number = 0;
    int priority = 0;
    std::vector<size_t> pairs;  ///< the links that it takes, as ordered pairs: both ways at once
    Clock::duration left;       ///< time that it still takes
  };
  const LinkSpeed& link(int a, int b) const { return links_[static_cast<size_t>(a * ranks_ + b)]; }
  using Arrivals = std::map<int64_t, Clock::time_point>;  ///< by operation number
  static constexpr int64_t kNobody = -1;                  ///< no operation's number
  struct Until {
    Clock::time_point time;
    int64_t arrival_of = kNobody;
  };
  /// Moves the operations in `queue` on from `from` until a time, or until one operation has arrived. Keeps in `queue`
  /// what hasn't arrived by then, and adds what has to `arrived`.
  void go_on(std::vector<UnderWay>& queue, Clock::time_point from, const Until& until, Arrivals& arrived) const;
  void go_on_to_now();

  int ranks_;
  std::vector<LinkSpeed> links_;  ///< for every ordered pair
  std::mutex mutex_;
  std::vector<UnderWay> under_way_;  ///< in the order in which they take links
  Clock::time_point as_of_ = Clock::now();
  Arrivals arrived_;  ///< of the latest operations
  int64_t carried_ = 0;
};

}  // namespace dptrain
