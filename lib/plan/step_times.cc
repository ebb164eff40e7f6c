#include "plan/step_times.h"

#include <algorithm>
#include <map>

#include "base/check.h"

namespace dptrain::plan {
namespace {

/// One rank on its way through a step.
class Player {
 public:
  Player(const PlannedRank& rank, const StepTimesRequest& request) : calls_(rank.calls) {
    seconds_before_.push_back(0);
    for (const OperatorCost& cost : rank.operators)
      seconds_before_.push_back(seconds_before_.back() +
                                request.calibration.compute_factor *
                                    operator_seconds(cost, request.figures, request.precision));
  }

  /// Where it is when it starts a call, or has come to wait for it: as many operators on as were given before.
  double compute_to(size_t operators) {
    now_ += seconds_before_[operators] - seconds_before_[done_];
    done_ = operators;
    return now_;
  }
  double compute_to_end() { return compute_to(seconds_before_.size() - 1); }
  void wait_until(double time) {
    exposed_ += std::max(0.0, time - now_);
    now_ = std::max(now_, time);
  }

  const CallLog& calls() const { return calls_; }
  RankTimes times() const { return {.compute_s = seconds_before_.back(), .exposed_comm_s = exposed_}; }

 private:
  const CallLog& calls_;
  std::vector<double> seconds_before_;  ///< of so many operators
  size_t done_ = 0;
  double now_ = 0;
  double exposed_ = 0;
};

/// A call's beginning or the wait for its end, in the order in which a rank comes to them.
struct Event {
  size_t operators = 0;
  size_t call = 0;
  bool waits = false;

  auto operator<=>(const Event&) const = default;
};

std::vector<Event> events_of(const CallLog& calls) {
  std::vector<Event> events;
  for (size_t k = 0; k < calls.size(); ++k) {
    events.push_back({.operators = calls[k].started_after, .call = k, .waits = false});
    events.push_back({.operators = calls[k].awaited_after, .call = k, .waits = true});
  }
  std::ranges::sort(events);
  return events;
}

/// When each call ends, as far as all ranks have started it. Calls of one root, and all where there is none, follow on
/// each other; those of other roots take other links.
class Channel {
 public:
  Channel(const StepTimesRequest& request, size_t ranks, size_t calls)
      : request_(request), started_(calls, 0), latest_(calls, 0), ends_(calls, 0), ranks_(ranks) {}

  void start(size_t call, double time) {
    ++started_[call];
    latest_[call] = std::max(latest_[call], time);
    for (; next_ < ends_.size() && started_[next_] == ranks_; ++next_) carry(next_);
  }
  bool has_ended(size_t call) const { return call < next_; }
  double end(size_t call) const { return ends_[call]; }
  double total_seconds() const { return total_; }

 private:
  void carry(size_t call) {
    std::vector<const LoggedCall*> of_ranks;
    for (const PlannedRank& rank : request_.step.ranks) of_ranks.push_back(&rank.calls[call]);
    const double seconds = request_.calls.seconds(of_ranks);
    const int place = request_.calls.place_of(*of_ranks.front());
    double& free_at = place < 0 ? all_free_at_ : free_at_[place];
    free_at = std::max({free_at, all_free_at_, latest_[call]});
    if (place < 0)
      for (const auto& [other, free] : free_at_) free_at = std::max(free_at, free);
    ends_[call] = free_at += seconds;
    total_ += seconds;
  }

  const StepTimesRequest& request_;
  std::vector<size_t> started_;
  std::vector<double> latest_;
  std::vector<double> ends_;
  size_t ranks_;
  size_t next_ = 0;
  std::map<int, double> free_at_;  ///< links of a root's process
  double all_free_at_ = 0;
  double total_ = 0;
};

}  // namespace

StepTimes step_times(const StepTimesRequest& request) {
  const std::vector<PlannedRank>& ranks = request.step.ranks;
  std::vector<Player> players;
  std::vector<std::vector<Event>> events;
  std::vector<size_t> next(ranks.size(), 0);
  for (const PlannedRank& rank : ranks) {
    DPTRAIN_CHECK(rank.calls.size() == ranks.front().calls.size(), "ranks of {} and {} calls", rank.calls.size(),
                  ranks.front().calls.size());
    players.emplace_back(rank, request);
    events.push_back(events_of(rank.calls));
  }
  Channel channel(request, ranks.size(), ranks.front().calls.size());
  // Each rank goes on until it waits for a call that another hasn't started; then it is that one's turn.
  for (bool moved = true; moved;) {
    moved = false;
    for (size_t r = 0; r < ranks.size(); ++r) {
      for (; next[r] < events[r].size(); ++next[r], moved = true) {
        const Event& event = events[r][next[r]];
        if (event.waits && !channel.has_ended(event.call)) break;
        const double now = players[r].compute_to(event.operators);
        if (event.waits)
          players[r].wait_until(channel.end(event.call));
        else
          channel.start(event.call, now);
      }
    }
  }
  StepTimes times{.comm_s = channel.total_seconds(), .host_s = request.calibration.host_s, .ranks = {}};
  for (size_t r = 0; r < ranks.size(); ++r) {
    DPTRAIN_CHECK(next[r] == events[r].size(), "rank {} waits for call {} forever", r, events[r][next[r]].call);
    times.step_s = std::max(times.step_s, players[r].compute_to_end() + times.host_s);
    times.ranks.push_back(players[r].times());
  }
  return times;
}

}  // namespace dptrain::plan
