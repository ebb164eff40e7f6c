#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "plan/call_times.h"
#include "plan/operator_estimates.h"
#include "plan/planned_step.h"
#include "plan/rank_player.h"
#include "plan/shared_cores.h"
#include "plan/store_places.h"

namespace dptrain::plan {

/// When a rank's call ran.
struct PlayedCall {
  double begin = 0;     ///< when the rank started it
  double together = 0;  ///< when all of its ranks had started it
  /// When its result is there, or its message has been sent; nothing if nobody knows or waits.
  std::optional<double> end = {};
};

/// What a rank does over time, in one step or in several consecutive ones.
struct RankCourse {
  std::vector<Stretch> operators;  ///< by number
  std::vector<Stretch> waits;      ///< for calls, in order
  std::vector<PlayedCall> calls;   ///< by number
};

struct StepTimes {
  double step_s = 0;             ///< until the last rank has finished
  double comm_s = 0;             ///< sum over all operations of the time on their links, hidden or not
  double host_s = 0;             ///< time outside of computing and calls
  double server_s = 0;           ///< for a store on servers: the busiest server's time for adding up and updating
  std::vector<RankTimes> ranks;  ///< of one step
  std::vector<RankCourse> courses = {};

  /// The share of the ranks' time in which they don't compute; `host_s` doesn't count.
  double bubble() const;
};

struct StepTimesRequest {
  const PlannedStep& step;
  const OperatorEstimates& estimates;
  Calibration calibration = {};
  CallTimes& calls;
  std::optional<StorePlaces> places = {};  ///< for a store on servers
  /// The cores that CPU workers share; nothing: each worker has as many as when its operators were measured.
  std::optional<SharedCores> cores = {};
};

/// Plays a step and returns its times. Each rank computes its operators in order. A collective or a message begins once
/// all of its ranks have started it and its links are free; a rank that waits for it goes on when it ends.
///
/// The cores of CPU workers also do the process's work for calls. Workers are slower meanwhile, and also while they
/// share cores with other busy workers. If the next step makes a step's update, several steps are played and the last
/// one counts. For a store on servers, only the first worker's ranks are played; see StoreTimes.
StepTimes step_times(const StepTimesRequest& request);

}  // namespace dptrain::plan
