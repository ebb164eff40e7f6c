#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "plan/planned_step.h"

namespace dptrain::plan {

/// On a rank's way: that a call begins, or is waited for, or that a step ends.
struct RankEvent {
  size_t calls = 0;  ///< that the rank has started before
  bool starts = false;
  size_t operators = 0;             ///< that it has computed before
  std::optional<size_t> call = {};  ///< nothing: a step ends

  /// Of two waits between the same starts the one with fewer operators before it comes first, whichever call is older.
  auto operator<=>(const RankEvent&) const = default;
};

/// What a rank does.
struct RankWork {
  std::vector<double> operator_s;  ///< at a speed of 1
  const CallLog& calls;
  std::vector<FollowingSteps::End> ends = {};  ///< of steps
};

/// From `begin` to `end`, in seconds since the first step began.
struct Stretch {
  double begin = 0;
  double end = 0;
};

/// How long a rank has computed and waited.
struct RankTimes {
  double compute_s = 0;  ///< operators, the optimizer's included, and sums and messages that take its core meanwhile
  double exposed_comm_s = 0;  ///< that it waits for others

  double all_s() const { return compute_s + exposed_comm_s; }
};

/// One rank on its way through a step, or several: it computes up to the next event, waits there until somebody tells
/// it to go on, and its cores do what they owe to calls beside either. Time only goes forward.
class RankPlayer {
 public:
  enum class State { computing, waiting, finished };

  explicit RankPlayer(const RankWork& work);

  State state() const { return state_; }
  /// That it computes towards, or waits at; null behind the last one.
  const RankEvent* event() const { return next_ < events_.size() ? &events_[next_] : nullptr; }
  double now() const { return now_; }
  /// Up to now.
  const RankTimes& times() const { return times_; }
  /// Up to the end of each step that it has come to.
  const std::vector<RankTimes>& times_of_ends() const { return ends_; }
  /// When it has computed each operator, as far as it has come, and waited.
  std::vector<Stretch> operators() const;
  const std::vector<Stretch>& waits() const { return waits_; }
  /// Whether its cores have anything to do.
  bool is_busy() const { return state_ == State::computing || owed_ > 0; }

  /// When it comes to its event, or to its end; of one that computes.
  double arrives_at() const;
  /// When its cores owe nothing any more; of one that doesn't compute. Nothing where they owe nothing.
  std::optional<double> relieved_at() const;

  void go_to(double time);
  /// Of its cores, from now on.
  void set_speed(double speed) { speed_ = speed; }
  /// Its cores have so much to do beside, from now on: half of them, until that is done, where it computes.
  void owe(double seconds) { owed_ += seconds; }

  /// It has arrived at its event, and goes on.
  void pass_event();
  void wait();
  /// It has waited long enough, not for an event of its own.
  void go_on() { state_ = State::computing; }
  /// It has arrived at the end.
  void finish() { state_ = State::finished; }

 private:
  size_t operators_before_event() const;
  /// When it had first computed so much, at a speed of 1, and when it went on from there.
  double comes_to(double computed_s) const;
  double goes_on_from(double computed_s) const;

  std::vector<RankEvent> events_;  ///< in the order in which it comes to them
  size_t next_ = 0;
  std::vector<double> seconds_before_;  ///< of so many operators
  size_t done_ = 0;                     ///< operators before the event that it passed last
  State state_ = State::computing;
  double left_ = 0;  ///< to compute before the next event, at a speed of 1
  double owed_ = 0;
  double speed_ = 1;
  double now_ = 0;
  RankTimes times_;
  std::vector<RankTimes> ends_;
  /// How far it had come at some moments, between which it computes at one speed, or not at all.
  struct Moment {
    double time = 0;
    double computed_s = 0;  ///< at a speed of 1
  };
  std::vector<Moment> moments_ = {{}};
  std::vector<Stretch> waits_;
};

}  // namespace dptrain::plan
