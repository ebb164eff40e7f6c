#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "plan/planned_step.h"

namespace dptrain::plan {

/// An event on a rank's way: a call begins, a call is awaited, or a step ends.
struct RankEvent {
  size_t calls = 0;  ///< number of calls that the rank has started before
  bool starts = false;
  size_t operators = 0;             ///< number of operators that it has computed before
  std::optional<size_t> call = {};  ///< nothing: a step ends

  /// Between two starts of calls, the wait with fewer operators before it comes first, even if its call is newer.
  auto operator<=>(const RankEvent&) const = default;
};

/// The work of one rank.
struct RankWork {
  std::vector<double> operator_s;  ///< at a speed of 1
  const CallLog& calls;
  std::vector<FollowingSteps::End> ends = {};  ///< of consecutive steps
};

/// From `begin` to `end`, in seconds since the first step began.
struct Stretch {
  double begin = 0;
  double end = 0;
};

/// How long a rank has computed and waited.
struct RankTimes {
  double compute_s = 0;  ///< operators, with the optimizer's, and the sums and messages that take its core meanwhile
  double exposed_comm_s = 0;  ///< waiting for other ranks

  double all_s() const { return compute_s + exposed_comm_s; }
};

/// Plays one rank through one or more steps. The rank computes up to its next event, then waits until the caller tells
/// it to go on. Meanwhile its cores also do the work that calls ask for. Time only moves forward.
class RankPlayer {
 public:
  enum class State { computing, waiting, finished };

  explicit RankPlayer(const RankWork& work);

  State state() const { return state_; }
  /// The event that it computes towards, or waits at; null after the last one.
  const RankEvent* event() const { return next_ < events_.size() ? &events_[next_] : nullptr; }
  double now() const { return now_; }
  /// Times up to now.
  const RankTimes& times() const { return times_; }
  /// Times up to the end of each step that it has finished.
  const std::vector<RankTimes>& times_of_ends() const { return ends_; }
  /// When it computed each operator so far; waits() says when it waited.
  std::vector<Stretch> operators() const;
  const std::vector<Stretch>& waits() const { return waits_; }
  /// Whether its cores have anything to do.
  bool is_busy() const { return state_ == State::computing || owed_ > 0; }

  /// When it reaches its next event, or its end. Only while it computes.
  double arrives_at() const;
  /// When its cores have done all the work that calls ask for; nothing if there is none. Only while it doesn't compute.
  std::optional<double> relieved_at() const;

  void go_to(double time);
  /// Sets the speed of its cores from now on.
  void set_speed(double speed) { speed_ = speed; }
  /// Gives its cores additional work for calls. While the rank computes, half of its cores do this work until it is
  /// done.
  void owe(double seconds) { owed_ += seconds; }

  /// Passes the event that it has reached, and goes on computing.
  void pass_event();
  void wait();
  /// Ends a wait that has no event of its own.
  void go_on() { state_ = State::computing; }
  /// Marks that it has reached its end.
  void finish() { state_ = State::finished; }

 private:
  size_t operators_before_event() const;
  /// The time at which it had first computed this much, in seconds at a speed of 1, and the time at which it went on
  /// from there.
  double comes_to(double computed_s) const;
  double goes_on_from(double computed_s) const;

  std::vector<RankEvent> events_;  ///< in the order in which it reaches them
  size_t next_ = 0;
  std::vector<double> seconds_before_;  ///< seconds of the first k operators, by k
  size_t done_ = 0;                     ///< operators before the last event that it passed
  State state_ = State::computing;
  double left_ = 0;  ///< seconds to compute before the next event, at a speed of 1
  double owed_ = 0;
  double speed_ = 1;
  double now_ = 0;
  RankTimes times_;
  std::vector<RankTimes> ends_;
  /// Its progress at a point in time. Between two moments it computes at one speed, or not at all.
  struct Moment {
    double time = 0;
    double computed_s = 0;  ///< at a speed of 1
  };
  std::vector<Moment> moments_ = {{}};
  std::vector<Stretch> waits_;
};

}  // namespace dptrain::plan
