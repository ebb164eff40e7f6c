#include "parallel/comm_speed.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <optional>
#include <utility>

#include "base/clock.h"
#include "base/median.h"
#include "tensor/tensor.h"

namespace dptrain::parallel {
namespace {

constexpr CommKind kKinds[] = {CommKind::all_reduce, CommKind::reduce_scatter, CommKind::all_gather, CommKind::reduce,
                               CommKind::broadcast};

/// Bytes of the last level cache; if the system doesn't say, the size of a large one.
int64_t cache_bytes() {
  constexpr int64_t kLarge = int64_t{64} << 20;
  const int64_t level3 = ::sysconf(_SC_LEVEL3_CACHE_SIZE);
  return level3 > 0 ? level3 : kLarge;
}

/// Limit of the number of buffer sets: small messages would need millions of sets to fill a cache.
constexpr int64_t kMostSets = 4096;

/// One rank's buffers and calls.
class Caller {
 public:
  Caller(Device& device, Communicator& communicator, int64_t bytes)
      : device_(device), communicator_(communicator), ranks_(communicator.size()) {
    // A multiple of the number of ranks, so that every rank's part has the same size.
    elements_ = std::max<int64_t>(1, bytes / 4 / ranks_) * ranks_;
    const int64_t at_once = 2 * 4 * elements_ * ranks_;
    const int64_t sets = std::min(1 + 2 * cache_bytes() / at_once, kMostSets);
    for (int64_t set = 0; set < sets; ++set) sets_.push_back({.from = buffer(), .to = buffer()});
  }

  /// Returns what this rank passes to the collective.
  CommCall call(CommKind kind) {
    const Set& set = next();
    const auto whole = [&](const Tensor& tensor) {
      return CommBuffer{.data = tensor.raw(), .elements = elements_, .dtype = DType::f32};
    };
    const auto part = [&](const Tensor& tensor) {
      return CommBuffer{.data = tensor.raw(), .elements = elements_ / ranks_, .dtype = DType::f32};
    };
    CommCall call{.kind = kind, .in = whole(set.from), .out = whole(set.from)};
    if (kind == CommKind::reduce || kind == CommKind::broadcast) call.other = 0;
    if (kind == CommKind::reduce_scatter) call.out = part(set.to);
    if (kind == CommKind::all_gather) call.in = part(set.to);
    return call;
  }
  void run(const CommCall& call) {
    switch (call.kind) {
      case CommKind::reduce_scatter: communicator_.reduce_scatter(call.in, call.out); break;
      case CommKind::all_gather: communicator_.all_gather(call.in, call.out); break;
      case CommKind::reduce: communicator_.reduce(call.in, call.other); break;
      case CommKind::broadcast: communicator_.broadcast(call.in, call.other); break;
      default: communicator_.all_reduce(call.in);
    }
    device_.synchronize();
  }
  /// Copies `bytes` from one buffer to another. If that is more than a buffer holds, it takes several copies.
  void copy(int64_t bytes) {
    while (bytes > 0) {
      const Set& set = next();
      const int64_t now = std::min(bytes, set.from.bytes());
      std::memcpy(set.to.raw(), set.from.raw(), static_cast<size_t>(now));
      bytes -= now;
    }
  }
  int64_t bytes() const { return 4 * elements_; }

 private:
  struct Set {
    Tensor from, to;
  };

  Tensor buffer() const { return Tensor::zeros(device_, {elements_}, {.purpose = MemoryPurpose::communication}); }
  const Set& next() { return sets_[static_cast<size_t>(turn_++) % sets_.size()]; }

  Device& device_;
  Communicator& communicator_;
  int ranks_;
  int64_t elements_ = 0;
  std::vector<Set> sets_;
  int64_t turn_ = 0;
};

/// When one rank began and ended its calls of one kind, which it makes together with all other ranks.
struct Spans {
  std::vector<Clock::time_point> begun, ended;

  /// Makes a call that begins once all ranks have arrived.
  void add(Communicator& communicator, const std::function<void()>& call) {
    communicator.barrier();
    begun.push_back(Clock::now());
    call();
    ended.push_back(Clock::now());
  }
};

/// Returns the time of each call over the ranks of a process, from the first rank's begin to the last rank's end. A
/// rank that waits for a core begins late, so its own begin would hide that wait.
std::vector<float> seconds_of_process(const std::vector<Spans>& ranks) {
  std::vector<float> seconds;
  for (size_t call = 0; call < ranks.front().begun.size(); ++call) {
    Clock::time_point begun = ranks.front().begun[call], ended = ranks.front().ended[call];
    for (const Spans& rank : ranks) {
      begun = std::min(begun, rank.begun[call]);
      ended = std::max(ended, rank.ended[call]);
    }
    seconds.push_back(std::chrono::duration<float>(ended - begun).count());
  }
  return seconds;
}

/// Returns the median over calls of the slowest process's time; 0 without calls. All ranks call it. Processes have
/// different clocks, so they exchange durations.
double median_of_slowest(const std::vector<Spans>& ranks, Communicator& over_host) {
  over_host.barrier();  // until all ranks of the process have written their times
  std::vector<float> own = seconds_of_process(ranks);
  if (own.empty()) return 0;
  const auto calls = static_cast<int64_t>(own.size());
  std::vector<float> all(own.size() * static_cast<size_t>(over_host.size()));
  over_host.all_gather({.data = own.data(), .elements = calls, .dtype = DType::f32},
                       {.data = all.data(), .elements = static_cast<int64_t>(all.size()), .dtype = DType::f32});
  std::vector<double> slowest(own.size());
  for (size_t i = 0; i < all.size(); ++i)
    slowest[i % own.size()] = std::max(slowest[i % own.size()], static_cast<double>(all[i]));
  return median(std::move(slowest));
}

/// Returns nothing if the measurement was stopped.
std::optional<CommSpeed> measured(RankTeam& team, CommKind kind, int64_t bytes, const CommSpeedOptions& options) {
  const int ranks = team.world_size();
  CommSpeed speed{.kind = kind};
  std::atomic<bool> is_stopped = false;
  std::vector<Spans> calls(static_cast<size_t>(team.size())), copied(calls.size());
  // A memcpy is no measure for a GPU, and all ranks must time the same calls.
  bool copies = true;
  for (int rank = 0; rank < ranks; ++rank) copies &= team.kind(rank) == DeviceKind::cpu;
  team.run(fmt::format("measuring {}", comm_kind_name(kind)), [&](int rank) {
    Communicator &communicator = team.communicator(rank), &over_host = team.host_communicator(rank);
    Caller caller(team.device(rank), communicator, bytes);
    const CommCall sample = caller.call(kind);
    int64_t sent = 0;
    for (int r = 0; r < ranks; ++r) sent += sent_bytes(sample, r, ranks);
    const auto own = static_cast<size_t>(rank);
    for (int i = 0; i < options.repeats; ++i) {
      // The first rank decides for all ranks.
      float stops = team.is_first(rank) && options.stopped && options.stopped() ? 1 : 0;
      over_host.broadcast({.data = &stops, .elements = 1, .dtype = DType::f32}, 0);
      if (stops != 0) {
        is_stopped = true;
        return;
      }
      calls[own].add(communicator, [&] { caller.run(caller.call(kind)); });
      if (copies && sent > 0) copied[own].add(communicator, [&] { caller.copy(sent / ranks); });
    }
    const double seconds = median_of_slowest(calls, over_host), copy_s = median_of_slowest(copied, over_host);
    if (rank == 0)
      speed = {.kind = kind, .bytes = caller.bytes(), .seconds = seconds, .copy_s = copy_s, .sent_bytes = sent};
  });
  if (is_stopped) return std::nullopt;
  return speed;
}

}  // namespace

std::vector<CommSpeed> measure_comm(RankTeam& team, const CommSpeedOptions& options) {
  std::vector<CommSpeed> speeds;
  for (const CommKind kind : kKinds) {
    for (const int64_t bytes : options.bytes) {
      const auto speed = measured(team, kind, bytes, options);
      if (!speed) return speeds;
      speeds.push_back(*speed);
    }
  }
  return speeds;
}

}  // namespace dptrain::parallel
