#pragma once

#include <array>
#include <cstddef>
#include <utility>

#include "base/clock.h"
#include "device/timeline.h"

namespace dptrain::parallel {

/// What a rank spends its time on.
enum class Phase { compute, communication, optimizer, idle };

/// Seconds by phase.
struct PhaseTimes {
  std::array<double, 4> seconds{};
  double& operator[](Phase phase) { return seconds[static_cast<size_t>(phase)]; }
  double operator[](Phase phase) const { return seconds[static_cast<size_t>(phase)]; }
};

/// A rank's clock. It is always in exactly one phase, so the phases add up to the whole time. It belongs to the rank
/// thread and is read between steps.
class PhaseClock {
 public:
  /// Shows updates on `timeline` from now on; null shows nothing. `shows_waits` also shows waits for others, for
  /// devices that compute on the rank thread.
  void show_on(Timeline* timeline, bool shows_waits) {
    timeline_ = timeline;
    shows_waits_ = shows_waits;
  }
  /// Ends the current phase and begins `phase`. Returns the phase that ended.
  Phase enter(Phase phase) {
    const auto now = Clock::now();
    times_[phase_] += seconds_between(since_, now);
    since_ = now;
    if (timeline_ != nullptr) show(phase);
    return std::exchange(phase_, phase);
  }
  /// Returns the times since the last call.
  PhaseTimes take() {
    enter(phase_);
    return std::exchange(times_, PhaseTimes{});
  }

 private:
  void show(Phase next) {
    timeline_->end(std::exchange(shown_, Timeline::kNone));
    if (next == Phase::communication && shows_waits_) shown_ = timeline_->begin_phase("wait for others");
    if (next == Phase::optimizer) shown_ = timeline_->begin_phase("optimizer");
  }

  Phase phase_ = Phase::idle;
  Clock::time_point since_ = Clock::now();
  PhaseTimes times_;
  Timeline* timeline_ = nullptr;
  bool shows_waits_ = false;
  int64_t shown_ = Timeline::kNone;
};

/// Enters a phase for the length of its scope, then returns to the phase before.
class InPhase {
 public:
  InPhase(PhaseClock& clock, Phase phase) : clock_(clock), before_(clock.enter(phase)) {}
  ~InPhase() { clock_.enter(before_); }
  InPhase(const InPhase&) = delete;
  InPhase& operator=(const InPhase&) = delete;

 private:
  PhaseClock& clock_;
  Phase before_;
};

}  // namespace dptrain::parallel
