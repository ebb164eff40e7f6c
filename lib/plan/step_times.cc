#include "plan/step_times.h"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <utility>

#include "base/check.h"
#include "plan/link_schedule.h"
#include "plan/operation.h"
#include "plan/rank_player.h"
#include "plan/store_times.h"

namespace dptrain::plan {
namespace {

/// Returns the seconds for reading and writing bytes of host memory. For several hosts they follow from the links file,
/// beside GPUs from the rate to host memory, and for CPU workers from an operator of that size.
std::function<double(double)> memory_seconds(const StepTimesRequest& request) {
  if (const auto& hosts = request.calls.hosts())
    return [rate = hosts->memory_bytes_per_s](double bytes) { return rate > 0 ? bytes / rate : 0; };
  const DeviceFigures& figures = request.estimates.figures();
  if (figures.staging_bytes_per_s > 0)
    return [rate = figures.staging_bytes_per_s](double bytes) { return bytes / rate; };
  const OperatorCost pass{.name = {}, .bytes = int64_t{1} << 30};
  const double each = request.estimates.seconds(pass) / static_cast<double>(pass.bytes);
  return [per_byte = each * request.calibration.compute_factor](double bytes) { return per_byte * bytes; };
}

std::vector<double> seconds_of(const std::vector<OperatorCost>& operators, const StepTimesRequest& request) {
  std::vector<double> seconds;
  for (const OperatorCost& cost : operators)
    seconds.push_back(request.calibration.compute_factor * request.estimates.seconds(cost));
  return seconds;
}

/// The work of each rank, in one step or in several consecutive ones.
std::vector<RankWork> work_of_ranks(const StepTimesRequest& request) {
  std::vector<RankWork> all;
  for (const FollowingSteps& steps : request.step.following)
    all.push_back({.operator_s = seconds_of(steps.operators, request), .calls = steps.calls, .ends = steps.ends});
  if (!all.empty()) return all;
  for (const PlannedRank& rank : request.step.ranks)
    all.push_back({.operator_s = seconds_of(rank.operators, request), .calls = rank.calls});
  return all;
}

std::vector<const CallLog*> calls_of(const std::vector<RankWork>& ranks) {
  std::vector<const CallLog*> calls;
  for (const RankWork& rank : ranks) calls.push_back(&rank.calls);
  return calls;
}

class Play {
 public:
  explicit Play(const StepTimesRequest& request)
      : request_(request),
        work_(work_of_ranks(request)),
        operations_(operations_of(calls_of(work_))),
        started_(operations_.all.size()),
        links_(operations_.all.size()),
        takes_cores_(request.estimates.figures().kind == DeviceKind::cpu) {
    for (const RankWork& rank : work_) {
      players_.emplace_back(rank);
      played_.emplace_back(rank.calls.size());
    }
    held_until_.resize(players_.size());
    share_cores(0);
    if (!request.step.store || !request.step.store->served) return;
    DPTRAIN_CHECK(request.places, "a store of {} slices on servers that are nowhere",
                  request.step.store->served->slices.size());
    store_.emplace(StoreFigures{.store = *request.step.store->served,
                                .places = *request.places,
                                .hosts = request.calls.hosts(),
                                .memory_s = memory_seconds(request)});
  }

  StepTimes run() {
    while (go_on()) continue;
    StepTimes times{.comm_s = comm_s_, .host_s = request_.calibration.host_s, .ranks = {}};
    for (size_t r = 0; r < players_.size(); ++r) {
      const RankPlayer& player = players_[r];
      DPTRAIN_CHECK(player.event() == nullptr, "rank {} waits for call {} forever", r,
                    player.event()->call.value_or(work_[r].calls.size()));
      times.ranks.push_back(step_of(player));
      times.courses.push_back({.operators = player.operators(), .waits = player.waits(), .calls = ended_calls(r)});
    }
    times.step_s = times.host_s + std::ranges::max(times.ranks, {}, &RankTimes::all_s).all_s();
    if (store_) {
      times.comm_s += store_->comm_s();
      times.server_s = store_->busiest_server_s();
    }
    return times;
  }

 private:
  /// The times of the only step, or of the last of several complete ones.
  static RankTimes step_of(const RankPlayer& player) {
    const std::vector<RankTimes>& ends = player.times_of_ends();
    if (ends.size() < 2) return player.times();
    const RankTimes &before = ends[ends.size() - 2], &after = ends.back();
    return {.compute_s = after.compute_s - before.compute_s,
            .exposed_comm_s = after.exposed_comm_s - before.exposed_comm_s};
  }
  std::vector<PlayedCall> ended_calls(size_t rank) const {
    std::vector<PlayedCall> calls = played_[rank];
    for (size_t k = 0; k < calls.size(); ++k) calls[k].end = end_of_call(rank, k);
    return calls;
  }
  size_t steps() const { return std::max<size_t>(1, work_.front().ends.size()); }

  size_t operation_of(size_t rank, const RankEvent& event) const { return operations_.of_call[rank][*event.call]; }

  struct RankAt {
    size_t rank = 0;
    double time = 0;
  };

  /// Plays the next event, of a rank or of a store's servers. Returns false if there is none.
  bool go_on() {
    const std::optional<RankAt> first = earliest();
    const std::optional<double> of_servers = store_ ? store_->next() : std::nullopt;
    if (of_servers && (!first || *of_servers < first->time)) {
      store_->go_on();
      owe_for_store(*of_servers);
      share_cores(*of_servers);
      return true;
    }
    if (!first) return false;
    meet(first->rank, first->time);
    share_cores(first->time);
    return true;
  }

  const LoggedCall& call_of(size_t rank, const RankEvent& event) const { return work_[rank].calls[*event.call]; }

  /// The end of what a rank waits for, if it is known.
  std::optional<double> end_of(size_t rank) const {
    if (held_until_[rank]) return held_until_[rank];
    return end_of_call(rank, *players_[rank].event()->call);
  }
  std::optional<double> end_of_call(size_t rank, size_t number) const {
    const LoggedCall& call = work_[rank].calls[number];
    if (call.key && call.call.kind == CommKind::receive) return store_->pulled(*call.key);
    return links_.end(operations_.of_call[rank][number]);
  }

  /// The time of a rank's next event, if it is known.
  std::optional<double> next_of(size_t rank) const {
    const RankPlayer& player = players_[rank];
    if (player.state() == RankPlayer::State::computing) return player.arrives_at();
    std::optional<double> next = player.relieved_at();
    if (player.state() == RankPlayer::State::finished) return next;
    if (const std::optional<double> end = end_of(rank))
      next = std::min(next.value_or(*end), std::max(*end, player.now()));
    return next;
  }

  std::optional<RankAt> earliest() const {
    std::optional<RankAt> first;
    for (size_t r = 0; r < players_.size(); ++r) {
      const std::optional<double> at = next_of(r);
      if (at && (!first || *at < first->time)) first = {.rank = r, .time = *at};
    }
    return first;
  }

  void meet(size_t rank, double now) {
    RankPlayer& player = players_[rank];
    const bool arrives = player.state() == RankPlayer::State::computing;
    player.go_to(now);
    if (player.state() == RankPlayer::State::finished) return;
    if (arrives && player.event() == nullptr) return player.finish();
    if (arrives && !player.event()->call) return player.pass_event();
    if (arrives && player.event()->starts) {
      const RankEvent event = *player.event();
      player.pass_event();
      return start(rank, event, now);
    }
    const std::optional<double> end = end_of(rank);
    if (!end || *end > now) return player.wait();
    if (std::exchange(held_until_[rank], {}))
      player.go_on();
    else
      player.pass_event();
  }

  void start(size_t rank, const RankEvent& event, double now) {
    const size_t operation = operation_of(rank, event);
    played_[rank][*event.call].begin = now;
    const auto& ends = operations_.all[operation].ends;
    if (++started_[operation] < ends.size()) return;
    for (const auto& end : ends) played_[end.rank][end.call].together = now;
    const LoggedCall& call = call_of(rank, event);
    if (!call.key)
      carry(operation, now);
    else if (call.call.kind == CommKind::send)
      push(operation, *call.key, rank, now);
  }

  /// Handles a key's push after all ranks of the worker have pushed it, rank `last` as the last one. That rank adds up
  /// their sums if necessary.
  void push(size_t operation, size_t key, size_t last, double now) {
    const auto inputs = static_cast<int64_t>(operations_.all[operation].ends.size());
    const double adds_s = inputs > request_.places->sums_of(0) ? store_->adding_s(key, inputs) : 0;
    if (adds_s > 0) {
      held_until_[last] = now + adds_s;
      players_[last].wait();
    }
    links_.set_end(operation, store_->push(key, now + adds_s));
    owe_for_store(now);
  }

  void owe_for_store(double now) {
    const double work_s = store_->take_work_s();
    if (!takes_cores_) return;
    for (size_t r = 0; r < players_.size(); ++r) owe(r, work_s / static_cast<double>(players_.size()), now);
  }

  void owe(size_t rank, double seconds, double now) {
    players_[rank].go_to(now);
    players_[rank].owe(seconds);
  }

  void carry(size_t operation, double ready) {
    const auto& ends = operations_.all[operation].ends;
    std::vector<const LoggedCall*> calls;
    for (const auto& [rank, call] : ends) calls.push_back(&work_[rank].calls[call]);
    const CallCost cost = request_.calls.cost(calls);
    links_.take(operation, {.links = request_.calls.links_of(*calls.front()),
                            .priority = calls.front()->call.priority,
                            .ready = ready,
                            .seconds = cost.seconds,
                            .on_its_way_s = request_.calls.on_its_way_s(*calls.front())});
    comm_s_ += cost.seconds / static_cast<double>(steps());
    if (!takes_cores_ || cost.work_s == 0) return;
    std::map<int, int> ends_of_process;
    for (const auto& end : ends) ++ends_of_process[process_of(end.rank)];
    for (const auto& end : ends) owe(end.rank, cost.work_s / ends_of_process[process_of(end.rank)], ready);
  }

  int process_of(size_t rank) const { return request_.calls.process_of(static_cast<int>(rank)); }

  /// Shares the cores of each process among its busy ranks.
  void share_cores(double now) {
    if (!request_.cores) return;
    std::map<int, int> busy_threads;
    for (size_t r = 0; r < players_.size(); ++r)
      if (players_[r].is_busy()) busy_threads[process_of(r)] += request_.cores->threads[r];
    for (size_t r = 0; r < players_.size(); ++r) {
      if (!players_[r].is_busy()) continue;
      players_[r].go_to(now);
      players_[r].set_speed(request_.cores->speed(r, busy_threads[process_of(r)]));
    }
  }

  const StepTimesRequest& request_;
  const std::vector<RankWork> work_;
  const Operations operations_;
  std::vector<size_t> started_;  ///< by operation: how many of its ends have started it
  LinkSchedule links_;
  const bool takes_cores_;
  std::vector<RankPlayer> players_;
  std::vector<std::vector<PlayedCall>> played_;    ///< by rank and call number; without the calls' ends
  std::vector<std::optional<double>> held_until_;  ///< by rank: until when it adds up what the worker's ranks push
  double comm_s_ = 0;
  std::optional<StoreTimes> store_;
};

}  // namespace

double StepTimes::bubble() const {
  double computing = 0;
  for (const RankTimes& rank : ranks) computing += rank.compute_s;
  return 1 - computing / (static_cast<double>(ranks.size()) * (step_s - host_s));
}

StepTimes step_times(const StepTimesRequest& request) { return Play(request).run(); }

}  // namespace dptrain::plan
