#include "plan/step_times.h"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>

#include "base/check.h"
#include "plan/operation.h"
#include "plan/store_times.h"

namespace dptrain::plan {
namespace {

/// A call's beginning or the wait for its end.
struct Event {
  size_t calls = 0;  ///< that the rank has started before
  bool starts = false;
  size_t operators = 0;  ///< that it has computed before
  size_t call = 0;

  /// Of two waits between the same starts the one with fewer operators before it comes first, whichever call is older.
  auto operator<=>(const Event&) const = default;
};

/// In the order in which a rank comes to them.
std::vector<Event> events_of(const CallLog& calls) {
  std::vector<Event> events;
  for (size_t k = 0; k < calls.size(); ++k) {
    events.push_back({.calls = k, .starts = true, .operators = calls[k].started_after, .call = k});
    if (!calls[k].is_awaited) continue;
    events.push_back(
        {.calls = calls[k].awaited_calls, .starts = false, .operators = calls[k].awaited_after, .call = k});
  }
  std::ranges::sort(events);
  return events;
}

/// One rank on its way through a step.
class Player {
 public:
  Player(const PlannedRank& rank, const StepTimesRequest& request) : events_(events_of(rank.calls)) {
    seconds_before_.push_back(0);
    for (const OperatorCost& cost : rank.operators)
      seconds_before_.push_back(seconds_before_.back() +
                                request.calibration.compute_factor * request.estimates.seconds(cost));
  }

  /// The next one; null at the end.
  const Event* event() const { return next_ < events_.size() ? &events_[next_] : nullptr; }
  void go_past_event() { ++next_; }

  /// When as many operators are done, with what its core has to do beside them.
  double time_at(size_t operators) const { return now_ + lasts(operators) + std::min(owed_, lasts(operators)); }
  double compute_to(size_t operators) {
    DPTRAIN_CHECK(operators >= done_, "{} operators after {}", operators, done_);
    const double computing = lasts(operators), beside = std::min(owed_, computing);
    now_ += computing + beside;
    computed_ += computing + beside;
    owed_ -= beside;
    done_ = operators;
    return now_;
  }
  double compute_to_end() { return compute_to(seconds_before_.size() - 1); }
  void wait_until(double time) {
    const double waits = std::max(0.0, time - now_);
    exposed_ += waits;
    owed_ = std::max(0.0, owed_ - waits);
    now_ += waits;
  }
  /// Its core has so much to do from now on: half of it, until that is done, where the rank computes.
  void owe(double seconds) { owed_ += seconds; }

  RankTimes times() const { return {.compute_s = computed_, .exposed_comm_s = exposed_}; }

 private:
  double lasts(size_t operators) const { return seconds_before_[operators] - seconds_before_[done_]; }

  std::vector<Event> events_;
  size_t next_ = 0;
  std::vector<double> seconds_before_;  ///< of so many operators
  size_t done_ = 0;
  double now_ = 0;
  double computed_ = 0;
  double exposed_ = 0;
  double owed_ = 0;
};

/// Links that operations take, one after the other.
class Links {
 public:
  /// From `ready` on. `links`: none where it takes all. Returns when the operation ends.
  double take(const std::vector<int>& links, double ready, double seconds) {
    double begin = std::max(ready, all_free_at_);
    if (links.empty()) begin = std::max(begin, last_free_at_);
    for (const int link : links) begin = std::max(begin, free_at_[link]);
    const double end = begin + seconds;
    for (const int link : links) free_at_[link] = end;
    if (links.empty()) all_free_at_ = end;
    last_free_at_ = std::max(last_free_at_, end);
    return end;
  }

 private:
  std::map<int, double> free_at_;
  double all_free_at_ = 0;   ///< after the latest operation that takes all
  double last_free_at_ = 0;  ///< of any
};

/// What goes over bytes of host memory takes: on the cores of CPU workers as an operator of theirs, beside GPUs as what
/// they read and write of it; of several hosts as their links file says.
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

class Play {
 public:
  explicit Play(const StepTimesRequest& request)
      : request_(request),
        operations_(operations_of(request.step.ranks)),
        under_way_(operations_.all.size()),
        takes_cores_(request.estimates.figures().kind == DeviceKind::cpu) {
    for (const PlannedRank& rank : request.step.ranks) players_.emplace_back(rank, request);
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
      DPTRAIN_CHECK(players_[r].event() == nullptr, "rank {} waits for call {} forever", r, players_[r].event()->call);
      times.step_s = std::max(times.step_s, players_[r].compute_to_end() + times.host_s);
      times.ranks.push_back(players_[r].times());
    }
    if (store_) {
      times.comm_s += store_->comm_s();
      times.server_s = store_->busiest_server_s();
    }
    return times;
  }

 private:
  struct UnderWay {
    size_t started = 0;
    std::optional<double> end = {};
  };

  size_t operation_of(size_t rank, const Event& event) const { return operations_.of_call[rank][event.call]; }

  struct RankAt {
    size_t rank = 0;
    double time = 0;
  };

  /// Whatever happens next does: of the ranks, or of a store's servers. False where nothing does.
  bool go_on() {
    const std::optional<RankAt> first = earliest();
    const std::optional<double> of_servers = store_ ? store_->next() : std::nullopt;
    if (of_servers && (!first || *of_servers < first->time)) {
      store_->go_on();
      owe_for_store();
      return true;
    }
    if (first) meet(first->rank);
    return first.has_value();
  }

  const LoggedCall& call_of(size_t rank, const Event& event) const {
    return request_.step.ranks[rank].calls[event.call];
  }

  /// Of what a rank waits for, as far as it is known.
  std::optional<double> end_of(size_t rank, const Event& event) const {
    const LoggedCall& call = call_of(rank, event);
    if (call.key && call.call.kind == CommKind::receive) return store_->pulled(*call.key);
    return under_way_[operation_of(rank, event)].end;
  }

  /// The rank that comes to its next event first, of those that don't wait for an end that isn't known yet.
  std::optional<RankAt> earliest() const {
    std::optional<RankAt> first;
    for (size_t r = 0; r < players_.size(); ++r) {
      const Event* event = players_[r].event();
      if (event == nullptr || (!event->starts && !end_of(r, *event))) continue;
      const double at = players_[r].time_at(event->operators);
      if (!first || at < first->time) first = {.rank = r, .time = at};
    }
    return first;
  }

  void meet(size_t rank) {
    Player& player = players_[rank];
    const Event& event = *player.event();
    const size_t operation = operation_of(rank, event);
    const double now = player.compute_to(event.operators);
    player.go_past_event();
    if (!event.starts) return player.wait_until(*end_of(rank, event));
    if (++under_way_[operation].started < operations_.all[operation].ends.size()) return;
    const LoggedCall& call = call_of(rank, event);
    if (!call.key)
      carry(operation, now);
    else if (call.call.kind == CommKind::send)
      push(operation, *call.key, player, now);
  }

  /// All ranks of the worker have pushed the key, of which `last` was the last: it adds up what they have.
  void push(size_t operation, size_t key, Player& last, double now) {
    const auto inputs = static_cast<int64_t>(operations_.all[operation].ends.size());
    if (inputs > request_.places->sums_of(0)) now += store_->adding_s(key, inputs);
    last.wait_until(now);
    under_way_[operation].end = store_->push(key, now);
    owe_for_store();
  }

  void owe_for_store() {
    const double work_s = store_->take_work_s();
    if (!takes_cores_) return;
    for (Player& player : players_) player.owe(work_s / static_cast<double>(players_.size()));
  }

  void carry(size_t operation, double ready) {
    const auto& ends = operations_.all[operation].ends;
    std::vector<const LoggedCall*> calls;
    for (const auto& [rank, call] : ends) calls.push_back(&request_.step.ranks[rank].calls[call]);
    const CallCost cost = request_.calls.cost(calls);
    under_way_[operation].end = links_.take(request_.calls.links_of(*calls.front()), ready, cost.seconds);
    comm_s_ += cost.seconds;
    if (!takes_cores_ || cost.work_s == 0) return;
    std::map<int, int> ends_of_process;
    for (const auto& end : ends) ++ends_of_process[process_of(end)];
    for (const auto& end : ends) players_[end.rank].owe(cost.work_s / ends_of_process[process_of(end)]);
  }

  int process_of(const Operation::End& end) const { return request_.calls.process_of(static_cast<int>(end.rank)); }

  const StepTimesRequest& request_;
  const Operations operations_;
  std::vector<UnderWay> under_way_;
  const bool takes_cores_;
  std::vector<Player> players_;
  Links links_;
  double comm_s_ = 0;
  std::optional<StoreTimes> store_;
};

}  // namespace

StepTimes step_times(const StepTimesRequest& request) { return Play(request).run(); }

}  // namespace dptrain::plan
