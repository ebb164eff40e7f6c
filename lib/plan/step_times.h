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

/// When a call of a rank was under way.
struct PlayedCall {
  double begin = 0;     ///< the rank has started it
  double together = 0;  ///< all its ends have
  /// Its result is there, or it has been sent; nothing where nobody knows or waits.
  std::optional<double> end = {};
};

/// What a rank is at from moment to moment: of a step, or of some that follow on each other.
struct RankCourse {
  std::vector<Stretch> operators;  ///< by number
  std::vector<Stretch> waits;      ///< for calls, in order
  std::vector<PlayedCall> calls;   ///< by number
};

struct StepTimes {
  double step_s = 0;             ///< until the last rank is done
  double comm_s = 0;             ///< of all operations on their links, hidden or not
  double host_s = 0;             ///< that is neither
  double server_s = 0;           ///< of a store on servers: that the busiest server adds up and updates
  std::vector<RankTimes> ranks;  ///< of a step
  std::vector<RankCourse> courses = {};

  /// The share of the ranks' time in which they don't compute, without `host_s`.
  double bubble() const;
};

struct StepTimesRequest {
  const PlannedStep& step;
  const OperatorEstimates& estimates;
  Calibration calibration = {};
  CallTimes& calls;
  std::optional<StorePlaces> places = {};  ///< of a store on servers
  /// Of CPU workers; nothing: each has as many as it had where its operators were measured.
  std::optional<SharedCores> cores = {};
};

/// Plays a step: each rank computes its operators in order; a collective or a message begins once all its ends have
/// started it and its links are free, and whoever waits for it goes on when it ends. What a process's cores do for it
/// is done by those that CPU workers compute on: these are slower meanwhile, and so are workers that share cores with
/// others that have something to do. Where a step's update is the next one's, the last of some steps counts. Of a store
/// on servers the ranks are those of the first worker; see StoreTimes.
StepTimes step_times(const StepTimesRequest& request);

}  // namespace dptrain::plan
