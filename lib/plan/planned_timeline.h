#pragma once

#include <string>
#include <vector>

#include "parallel/rank_timelines.h"
#include "plan/planned_step.h"
#include "plan/step_times.h"

namespace dptrain::plan {

/// What each planned rank will be at, in the rows and by the names that a training's timeline has: its step, the parts
/// of it, their operators, its waits for others, and its exchanges. `step` was planned with its parts; `times` are its.
std::vector<std::vector<parallel::TimelineRow>> planned_timelines(const PlannedStep& step, const StepTimes& times);

/// The same as a file that chrome://tracing and Perfetto draw; see parallel/trace_events.h. `about`: an object of JSON
/// that says what it is of.
std::string planned_trace(const PlannedStep& step, const StepTimes& times, const std::string& about);

}  // namespace dptrain::plan
