#include "plan/rank_player.h"

#include <algorithm>

#include "base/check.h"

namespace dptrain::plan {
namespace {

std::vector<RankEvent> events_of(const RankWork& work) {
  const CallLog& calls = work.calls;
  std::vector<RankEvent> events;
  for (const FollowingSteps::End& end : work.ends)
    events.push_back({.calls = end.calls, .starts = false, .operators = end.operators, .call = {}});
  for (size_t k = 0; k < calls.size(); ++k) {
    events.push_back({.calls = k, .starts = true, .operators = calls[k].started_after, .call = k});
    if (!calls[k].is_awaited) continue;
    events.push_back(
        {.calls = calls[k].awaited_calls, .starts = false, .operators = calls[k].awaited_after, .call = k});
  }
  std::ranges::sort(events);
  return events;
}

}  // namespace

RankPlayer::RankPlayer(const RankWork& work) : events_(events_of(work)) {
  seconds_before_.push_back(0);
  for (const double seconds : work.operator_s) seconds_before_.push_back(seconds_before_.back() + seconds);
  left_ = seconds_before_[operators_before_event()];
}

size_t RankPlayer::operators_before_event() const {
  const RankEvent* next = event();
  return next != nullptr ? next->operators : seconds_before_.size() - 1;
}

double RankPlayer::arrives_at() const { return now_ + (left_ + std::min(owed_, left_)) / speed_; }

std::optional<double> RankPlayer::relieved_at() const {
  return owed_ > 0 ? std::optional(now_ + owed_ / speed_) : std::nullopt;
}

double RankPlayer::comes_to(double computed_s) const {
  const auto at = std::ranges::lower_bound(moments_, computed_s, {}, &Moment::computed_s);
  // Returns the exact time, which interpolation could miss by rounding.
  if (at == moments_.begin() || at->computed_s == computed_s) return at->time;
  const Moment& before = at[-1];
  return before.time +
         (at->time - before.time) * (computed_s - before.computed_s) / (at->computed_s - before.computed_s);
}

double RankPlayer::goes_on_from(double computed_s) const {
  const auto behind = std::ranges::upper_bound(moments_, computed_s, {}, &Moment::computed_s);
  return behind[-1].computed_s == computed_s ? behind[-1].time : comes_to(computed_s);
}

std::vector<Stretch> RankPlayer::operators() const {
  std::vector<Stretch> operators;
  for (size_t k = 0; k + 1 < seconds_before_.size() && seconds_before_[k + 1] <= moments_.back().computed_s; ++k)
    operators.push_back({.begin = goes_on_from(seconds_before_[k]), .end = comes_to(seconds_before_[k + 1])});
  return operators;
}

void RankPlayer::wait() {
  if (state_ != State::waiting) waits_.push_back({.begin = now_, .end = now_});
  state_ = State::waiting;
}

void RankPlayer::go_to(double time) {
  const double passed = std::max(0.0, time - now_);
  if (state_ != State::computing) {
    owed_ = time >= relieved_at().value_or(time) ? 0 : owed_ - passed * speed_;
    if (state_ == State::waiting) {
      times_.exposed_comm_s += passed;
      waits_.back().end = std::max(now_, time);  // exactly where the next stretch begins
    }
  } else {
    const double beside = std::min(owed_, left_);
    if (time >= arrives_at()) {
      left_ = 0;
      owed_ -= beside;
    } else {
      // Half of the cores do the work for calls, as long as there is any.
      const double done = passed * speed_, done_beside = std::min(beside, done / 2);
      owed_ -= done_beside;
      left_ -= done - done_beside;
    }
    times_.compute_s += passed;
  }
  now_ = std::max(now_, time);
  const double computed_s = std::max(seconds_before_[operators_before_event()] - left_, moments_.back().computed_s);
  // The rest of an operator may be too short for the time to change.
  if (passed == 0)
    moments_.back().computed_s = computed_s;
  else
    moments_.push_back({.time = now_, .computed_s = computed_s});
}

void RankPlayer::pass_event() {
  if (!event()->call) ends_.push_back(times_);
  const size_t before = event()->operators;
  DPTRAIN_CHECK(before >= done_, "{} operators after {}", before, done_);
  done_ = before;
  ++next_;
  left_ = seconds_before_[operators_before_event()] - seconds_before_[done_];
  state_ = State::computing;
}

}  // namespace dptrain::plan
