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

/// Links that communication between threads is held to: what is sent over one takes at least so long, one after the
/// other, that of a higher priority before others, which are interrupted for it. Shared by all groups of a process's
/// ranks; may be used by several threads.
///
/// A message takes its link for latency + bytes / bandwidth. A collective is carried as rings in the order of its ranks
/// carry it, whose steps last as long as the slowest link's: with N ranks, a buffer of S bytes and parts of P
///   all_reduce                   2 (N - 1) steps of S / N
///   reduce_scatter, all_gather   N - 1 steps of P
///   reduce, broadcast            N - 1 latencies and S, in pieces that follow each other along the ring
///   gather, scatter              each other rank's part over its link to the root, one after the other
///   barrier                      N - 1 latencies
/// and it takes all links between its ranks, until it ends. Who is next on a link waits on it until all others that it
/// takes are free.
class SimulatedLinks {
 public:
  /// `devices`: of rank 0, 1...
  SimulatedLinks(const LinkSpec& spec, const std::vector<DeviceId>& devices);

  /// How long the operation takes on links that nobody else uses. `calls`: of `ranks`, the sender and the receiver of a
  /// message.
  double seconds(std::span<const CommCall> calls, std::span<const int> ranks) const;
  /// The operation is given to its links now. Returns its number, from 0.
  int64_t carry(std::span<const CommCall> calls, std::span<const int> ranks);
  /// When its last byte arrives, or did; later than was said before where something more urgent came since. Of one that
  /// hundreds have followed: some time after it did.
  Clock::time_point arrival(int64_t operation);

 private:
  struct UnderWay {
    int64_t number = 0;
    int priority = 0;
    std::vector<size_t> pairs;  ///< the links that it takes, as ordered pairs: both ways at once
    Clock::duration left;       ///< on the way
  };
  const LinkSpeed& link(int a, int b) const { return links_[static_cast<size_t>(a * ranks_ + b)]; }
  using Arrivals = std::map<int64_t, Clock::time_point>;  ///< by number
  static constexpr int64_t kNobody = -1;                  ///< no operation's number
  struct Until {
    Clock::time_point time;
    int64_t arrival_of = kNobody;
  };
  /// Where links carry `queue` on by themselves from `from` until a time, or until an operation has arrived: leaves
  /// what hasn't arrived then, and adds what has to `arrived`.
  void go_on(std::vector<UnderWay>& queue, Clock::time_point from, const Until& until, Arrivals& arrived) const;
  void go_on_to_now();

  int ranks_;
  std::vector<LinkSpeed> links_;  ///< of every ordered pair
  std::mutex mutex_;
  std::vector<UnderWay> under_way_;  ///< in the order in which they take links
  Clock::time_point as_of_ = Clock::now();
  Arrivals arrived_;  ///< of the highest numbers
  int64_t carried_ = 0;
};

}  // namespace dptrain
